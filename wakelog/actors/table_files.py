"""TableFiles: the tables of a broker or a name server on disk, loaded at the start and saved later.

At most one save of a table is under way, in a thread. Saves requested meanwhile are one more, of
the table as it is then. A table of positions in the log waits for the disk first: the file must not
count messages that a power cut takes.

Where a save fails, all changes that wait for one are undone, the last first. So the table is as the
file has it, but for changes that nobody waits for. These are saved later, by trying again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Protocol

from wakelog.actors.transport.batching import BatchWorker
from wakelog.broker.trouble import Trouble
from wakelog.storage.durability.config_files import Backup, ConfigFiles
from wakelog.telemetry.logs import Log, logger

OnSaved = Callable[[BaseException | None], None]
"""Called on the loop after a save, with the reason if it failed."""


SAVED_AT_ONCE_MAX = 64
"""Some 0.5 ms to answer them. Ten thousand changes of a name server may wait for one save."""

RETRY_SECONDS = 5.0
"""Until a table is saved again that could not be."""

REST_SECONDS_MIN = 0.02
"""A table whose text took as long to make rests for as long again: it takes half the interpreter.
A million offsets take a second."""

WaitDurable = Callable[[str], Awaitable[None]]
"""Called after a table of this name was copied; returns when the copy may be saved, or raises."""

SHOWN_MAX = 10
"""How many names a notice has."""

_REMEDIES = {
    "topics": "Make them again (wakelog admin updateTopic), or stop and restore the file.",
    "subscriptionGroup": "Make them again (wakelog admin updateSubGroup), or stop and restore it.",
    "consumerOffset": "Consumers go on from where they were then; resetOffsetByTime moves them.",
}
_OTHER_REMEDY = "Check what it has, or stop and restore the file."


class Table(Protocol):
    """What is saved as one file."""

    def snapshot(self) -> Callable[[], str]:
        """Return a function that encodes the table as it is now, for any thread."""


class TableOwner(Protocol):
    """A core with tables."""

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables by name, in the order in which to load them."""

    def load(self, name: str, text: str) -> None:
        """Read the text of a table. Raises: ValueError, DamagedStore."""


class _Waiting(NamedTuple):
    on_saved: OnSaved
    undo: Callable[[], None] | None


class TableFiles:
    """The files of one owner's tables."""

    def __init__(
        self,
        owner: TableOwner,
        files: ConfigFiles,
        log: Log,
        thread_name: str,
        wait_durable: WaitDurable | None = None,
    ) -> None:
        """Save nothing yet. `wait_durable`: what the save of some tables waits for."""
        self._owner = owner
        self._files = files
        self._wait_durable = wait_durable
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=thread_name)
        self._workers: dict[str, BatchWorker] = {}
        self._waiting: dict[str, list[_Waiting]] = {}
        self._failures: dict[str, str] = {}
        self._timers: dict[str, tuple[float, asyncio.Handle]] = {}
        self._rest_until: dict[str, float] = {}
        self._may_rest = True
        self._kept: Mapping[str, str] = {}
        self._is_closed = False
        self._log = logger(log)
        self.backups: dict[str, Backup] = {}
        self.saved_count = 0
        self.failed_count = 0

    @property
    def troubles(self) -> dict[str, Trouble]:
        """Why tables cannot be saved, by file."""
        return {f"{name}.json": Trouble(reason) for name, reason in self._failures.items()}

    def load_all(self, kept: Mapping[str, str]) -> None:
        """Load every table that has a file.

        kept: files that have another name while the store is open.

        Raises: DamagedStore, StoreFailed.
        """
        self._kept = kept
        for name in self._owner.tables:
            file_name = self._file_name(name)
            self._files.load(file_name, partial(self._owner.load, name))
            backup = self._files.backups.get(file_name)
            if backup is not None:
                self.backups[name] = backup
                self._log.warning("table read from its .bak", table=name, cause=backup.reason)

    def save_soon(
        self,
        name: str,
        on_saved: OnSaved | None = None,
        *,
        undo: Callable[[], None] | None = None,
    ) -> None:
        """Save a table as it is now or later, and call `on_saved` then.

        undo: takes back a change of the table if it is not saved; called before `on_saved`.
        """
        if on_saved is not None:
            self._waiting.setdefault(name, []).append(_Waiting(on_saved, undo))
        if name not in self._workers:
            save = partial(self._save_waiting, name)
            self._workers[name] = BatchWorker(f"save {name}", save)
        self._workers[name].request()

    def save_all(self, *, except_for: Collection[str] = ()) -> None:
        """Save every table and return when all are durable; failures are logged."""
        self.close()
        for name in [name for name in self._owner.tables if name not in except_for]:
            try:
                self._save(name, self._owner.tables[name].snapshot())
            except Exception as error:
                self._on_failure(name, error)

    async def wait_saved(self) -> None:
        """Return when no save is under way, and none is waited for."""
        self._may_rest = False
        for name, worker in list(self._workers.items()):
            if self._waiting.get(name):
                worker.request()
            await worker.wait_idle()
        self._may_rest = True

    def close(self) -> None:
        """End the thread after its saves."""
        self._is_closed = True
        for _, timer in self._timers.values():
            timer.cancel()
        self._thread.shutdown()

    async def _save_waiting(self, name: str) -> bool:
        if self._is_closed or self._rests(name):
            return False
        waiting, failure = self._waiting.pop(name, []), None
        try:
            if not await self._write(name, self._owner.tables[name].snapshot()):
                return False  # `save_all` has saved a later copy
        except Exception as error:
            failure = error
            # What came meanwhile was made on top of changes that are undone now.
            waiting += self._waiting.pop(name, [])
            self._give_up(name, waiting, error)
        for number, each in enumerate(waiting, 1):
            each.on_saved(failure)
            if not number % SAVED_AT_ONCE_MAX:
                await asyncio.sleep(0)
        return False

    async def _write(self, name: str, encode: Callable[[], str]) -> bool:
        """Write a table in the thread; return False if that is closed meanwhile."""
        if self._wait_durable is not None:
            await self._wait_durable(name)
        if self._is_closed:
            return False
        loop = asyncio.get_running_loop()
        took_seconds = await loop.run_in_executor(self._thread, self._save, name, encode)
        if took_seconds >= REST_SECONDS_MIN:
            self._rest_until[name] = loop.time() + took_seconds
        self.saved_count += 1
        if self._failures.pop(name, None) is not None:
            self._log.info("table saved again", table=name)
        return True

    def _give_up(self, name: str, waiting: list[_Waiting], error: Exception) -> None:
        self._on_failure(name, error)
        for each in reversed(waiting):
            if each.undo is not None:
                each.undo()
        self._request_in(RETRY_SECONDS, name)

    def _rests(self, name: str) -> bool:
        """Whether a table is saved later, since its last text took long."""
        rest_seconds = self._rest_until.get(name, 0.0) - asyncio.get_running_loop().time()
        if rest_seconds <= 0 or not self._may_rest:
            return False
        self._request_in(rest_seconds, name)
        return True

    def _request_in(self, seconds: float, name: str) -> None:
        """Save a table after some time, unless it is to be saved before."""
        loop = asyncio.get_running_loop()
        due_seconds = loop.time() + seconds
        if (set_before := self._timers.get(name)) is not None:
            # uvloop's handle of a timer that is due has no `when`.
            then_seconds, timer = set_before
            if loop.time() < then_seconds < due_seconds:
                return
            timer.cancel()
        timer = loop.call_later(seconds, self._workers[name].request)
        self._timers[name] = due_seconds, timer

    def _save(self, name: str, encode: Callable[[], str]) -> float:
        """Save a table, and return how many seconds its text took."""
        began = time.monotonic()
        text = encode()
        took_seconds = time.monotonic() - began
        self._files.save(self._file_name(name), text)
        return took_seconds

    def _file_name(self, name: str) -> str:
        return self._kept.get(f"{name}.json", f"{name}.json")

    def _on_failure(self, name: str, error: BaseException) -> None:
        self.failed_count += 1
        if self._failures.get(name) != str(error):
            self._failures[name] = str(error)
            self._log.error("table not saved", table=name, error=str(error))


def backup_notice(name: str, backup: Backup, missing: list[str]) -> Trouble:
    """Return why the `.bak` was read, what is lost, and what helps."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(backup.saved_ms / 1000))
    lost = "what was changed since is lost"
    if missing:
        more = f" and {len(missing) - SHOWN_MAX} more" if missing[SHOWN_MAX:] else ""
        lost += f", such as {', '.join(missing[:SHOWN_MAX])}{more}"
    reason = f"{backup.reason}, so its .bak of {when} is in use: {lost}"
    return Trouble(reason, _REMEDIES.get(name, _OTHER_REMEDY))
