"""Plug-in dispatchers, found by entry point, each with its own position in the log.

A package offers one in the entry-point group `wakelog.dispatchers`: a callable that gets the
StoreConfig and returns a Dispatcher (`examples/dispatcher_plugin.py`). Each has a `PluginCursor`,
and the shell gives each cursor a thread or an actor. Only there the plug-in's code runs, its import
included. A plug-in that raises is tried again with growing pauses, and given up after some
attempts. A plug-in that hangs delays no other. The built-in dispatchers and the watermark
`dispatched` do not depend on plug-ins. wakelog's own Parquet dispatcher runs in the same way, if it
is enabled.

Invariants:
- The cursor passes a batch only after the plug-in has consumed it. A plug-in must ignore records
  that come twice.
- The kept position never covers records that the plug-in has not flushed.
- Retention keeps what a plug-in still needs, but not for ever: a plug-in that hangs or is far too
  slow must not fill the disk. It goes on with what is left of the log.
"""

from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Final, NamedTuple, Protocol

from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers.cursor_file import CursorFile, is_dispatcher_name
from wakelog.dispatchers.dispatcher import Dispatcher
from wakelog.dispatchers.log_cursor import CursorStatistics, LogCursor, LogReader
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem

ENTRY_POINT_GROUP: Final = "wakelog.dispatchers"
CORE_NAMES: Final = frozenset({"consume_queue", "filter_bitmap", "index", "parquet"})

# Not imported: it lies above this layer, and Spark's libraries are in an extra.
_PARQUET: Final = EntryPoint(
    "parquet", "wakelog.spark.side_files.dispatcher:make_dispatcher", ENTRY_POINT_GROUP
)

# Pauses double from 100 ms to 60 s, so that 16 attempts take some eight minutes. A database can
# restart in that time, and a full disk is still noticed soon.
ATTEMPTS_MAX: Final = 16
RETRY_MS_MIN: Final = 100
RETRY_MS_MAX: Final = 60_000
ERROR_CHARACTERS_MAX: Final = 500

# How long, and for how much of the log, a plug-in may hold retention back. An hour is several times
# as long as all attempts. 64 segments are less than a busy day, and more than any pause.
STALLED_MS_MAX: Final = 3_600_000
HELD_BYTES_MAX: Final = 64 << 30


MakeDispatcher = Callable[[StoreConfig], Dispatcher]


class Plugin(NamedTuple):
    """A dispatcher that was found, and how to make it or why it cannot be used."""

    name: str
    make: MakeDispatcher | None
    failure: str = ""


class PluginStatistics(NamedTuple):
    """Frozen counters of one plug-in."""

    name: str
    position: int
    lag_bytes: int
    batches_count: int
    failures_count: int
    attempts_count: int
    given_up: bool
    last_error: str
    cursor: CursorStatistics
    dispatcher: dict[str, int]


def find_plugins(found: Iterable[EntryPoint] | None = None) -> list[Plugin]:
    """Return what installed packages offer, without importing it.

    found: replaces the entry points of the installed packages.
    """
    points = entry_points(group=ENTRY_POINT_GROUP) if found is None else found
    plugins: list[Plugin] = []
    for point in sorted(points, key=lambda point: point.name):
        taken = CORE_NAMES | {plugin.name for plugin in plugins}
        if not is_dispatcher_name(point.name) or point.name in taken:
            failure = "the name is taken, or not of a-z, 0-9 and _ only"
            plugins.append(Plugin(point.name, None, failure))
        else:
            plugins.append(Plugin(point.name, partial(_make, point)))
    return plugins


def own_plugins(config: StoreConfig) -> list[Plugin]:
    """Return the enabled dispatchers of wakelog that run like plug-ins."""
    return [Plugin("parquet", partial(_make, _PARQUET))] if config.parquet_dispatcher else []


class RetentionHold:
    """Decides at every run of Retention whether a plug-in holds it back."""

    __slots__ = ("_floor", "_moved_ms", "left_behind")

    def __init__(self) -> None:
        """Begin with a plug-in that holds it back."""
        self._floor = -1
        self._moved_ms = 0
        self.left_behind = False

    def must_keep(self, floor: int, readable: int, now_ms: int) -> bool:
        """Return whether the log above `floor` has to be kept for the plug-in.

        floor: the first physical offset that the plug-in still needs. If it moves again and is near
            the log's end, the log is kept again.
        """
        if floor != self._floor or floor >= readable:
            self._floor, self._moved_ms = floor, now_ms
        is_stalled = now_ms - self._moved_ms >= STALLED_MS_MAX
        self.left_behind = is_stalled or readable - floor > HELD_BYTES_MAX
        return not self.left_behind


class PluginLogReader(LogReader, Protocol):
    """A reader of the log that one plug-in has for itself."""

    def close(self) -> None:
        """Close the segments."""
        ...


class PluginCursor:
    """Runs one plug-in over the log, in a thread of its own."""

    def __init__(
        self,
        fs: FileSystem,
        log: PluginLogReader,
        name: str,
        make: MakeDispatcher,
        config: StoreConfig,
        *,
        log_end: int,
        functions: ScanFunctions | None = None,
    ) -> None:
        """Make nothing and read nothing yet.

        log: not shared with another thread; `close` closes it.
        log_end: where the log ended when the broker recovered. Anything later was cut then, even if
            the log has grown since.
        """
        self.name = name
        self._log_end = log_end
        self._make = make
        self._config = config
        self._made: Dispatcher | None = None
        self._file = CursorFile(fs, config.paths.root, name)
        self._log = log
        self._cursor = LogCursor(log, config.delays_ms, functions=functions)
        self._started = False
        self._flushed = -1
        self._readable = 0
        self._batches_count = 0
        self._failures_count = 0
        self._attempts_count = 0
        self._retry_at_ms = 0
        self._last_error = ""
        self._counters: dict[str, int] = {}

    @property
    def given_up(self) -> bool:
        """Whether the plug-in failed too often in a row, and gets nothing more."""
        return self._attempts_count >= ATTEMPTS_MAX

    @property
    def retention_floor(self) -> int | None:
        """The first physical offset that the plug-in still needs; None once it is given up."""
        return None if self.given_up else max(self._flushed, 0)

    @property
    def retry_at_ms(self) -> int:
        """When `step` tries again after a failure; 0 if the last attempt succeeded."""
        return self._retry_at_ms

    def step(self, readable: int, bytes_max: int, now_ms: int) -> bool:
        """Dispatch up to about `bytes_max` bytes below `readable`; return whether there is more.

        Errors of the plug-in are counted, not raised. Raises: StoreFailed if the log cannot be
        read.
        """
        self._readable = readable
        if self.given_up or self._waits(now_ms):
            return False
        has_more = self._step(readable, bytes_max, now_ms)
        self._count()
        return has_more

    def flush(self, now_ms: int) -> bool:
        """Let the plug-in flush, and keep its position; return whether that succeeded."""
        if not self._started or self.given_up or self._waits(now_ms):
            return False
        if self._cursor.position == self._flushed:
            return True
        is_flushed = self._try(self._flush, now_ms)
        self._count()
        return is_flushed

    def close(self) -> None:
        """Close the log. A plug-in is not closed: it has flushed."""
        self._log.close()

    def statistics(self, readable: int = 0) -> PluginStatistics:
        """Return frozen counters, without a call of the plug-in; any thread may call this.

        readable: how far the log may be read now; a `step` that hangs has an older value.
        """
        position = self._cursor.position
        return PluginStatistics(
            self.name,
            position,
            max(self._readable - position, readable - position, 0),
            self._batches_count,
            self._failures_count,
            self._attempts_count,
            self.given_up,
            self._last_error,
            self._cursor.statistics(),
            self._counters,
        )

    def _step(self, readable: int, bytes_max: int, now_ms: int) -> bool:
        if not self._started and not self._try(self._start, now_ms):
            return False
        budget_end = self._cursor.position + bytes_max
        while (batch := self._cursor.read(readable, now_ms)) is not None:
            if len(batch):
                if not self._try(lambda: self._dispatcher.dispatch(batch), now_ms):
                    return False
                self._batches_count += 1
            self._cursor.passed(batch)
            if self._cursor.position >= budget_end:
                return self._cursor.position < readable
        return False

    def _start(self) -> None:
        if self._made is None:
            self._made = self._make(self._config)
        log_end = self._log_end
        needed = self._dispatcher.recover(log_end)
        kept = self._file.read()
        position = needed if kept is None else min(needed, kept)
        self._cursor.move_to(min(max(position, 0), log_end), log_end)
        self._flushed = self._cursor.position
        self._started = True

    def _flush(self) -> None:
        position = self._cursor.position
        durable = self._dispatcher.flush()
        if durable is not None:
            position = min(position, durable)
        if position != self._flushed:
            self._file.write(position)
            self._flushed = position

    @property
    def _dispatcher(self) -> Dispatcher:
        assert self._made is not None
        return self._made

    def _waits(self, now_ms: int) -> bool:
        """Return whether a retry comes later; one too far ahead means a clock that was set back."""
        return now_ms < self._retry_at_ms <= now_ms + RETRY_MS_MAX

    def _count(self) -> None:
        """Copy the plug-in's counters here, in its own thread, where a hang delays no other."""
        if self._made is None:
            return
        try:
            self._counters = dict(self._dispatcher.statistics())
        except Exception as error:
            self._counters = {}
            self._last_error = _describe(error)

    def _try(self, action: Callable[[], None], now_ms: int) -> bool:
        try:
            action()
        except Exception as error:  # foreign code: any error concerns only this plug-in
            self._failures_count += 1
            self._last_error = _describe(error)
            delay_ms = min(RETRY_MS_MIN << self._attempts_count, RETRY_MS_MAX)
            self._retry_at_ms = now_ms + delay_ms
            self._attempts_count += 1
            return False
        self._attempts_count = 0
        self._retry_at_ms = 0
        return True


def _make(point: EntryPoint, config: StoreConfig) -> Dispatcher:
    dispatcher: Dispatcher = point.load()(config)
    return dispatcher


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
