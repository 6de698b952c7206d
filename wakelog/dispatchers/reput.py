"""Reput: follows the log and hands each sound record to the dispatchers, once and in order.

This is the core of the Reput actor. `start` lets the dispatchers open their files and finds where
to begin. `step` dispatches what is readable and returns what to wake. `flush` makes it durable.

    rule                                                        counted as
    begins at the lowest position any dispatcher needs          -
    never below the log's begin: it moves up                    moved_up_count
    never passes `readable`, and with duplicationEnable never   -
    the confirm offset; 4.9.3 leaves that at -1, and
    dispatches nothing
    sound records, ends of files, wrong sizes and bad bytes     see `log_cursor.py`
    a dispatcher with a `LaggingDispatcher` may fall behind the others   see `lagging_dispatcher.py`
    on a master a message with a queue entry is an arrival in   arrivals_count
    each of its queues
    a slave counts puts by topic as it dispatches               topic_puts of the decision

Invariants:
- `dispatched` covers a record only after every dispatcher has consumed it, except a lagging one. It
  never goes down, except in a `start` that has to repeat records; the shared watermark stays as it
  was then.
- A flush job covers a record only after every dispatcher has consumed it, the lagging one too.
- After a dispatcher raised, the next step first lets all of them open their files again. A batch
  that was half consumed is found in the files, not in memory.

Source: org.apache.rocketmq.store.DefaultMessageStore#start,
DefaultMessageStore.ReputMessageService (4.9.3).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from wakelog.compiled.columns import ScanFunctions
from wakelog.compiled.layout import STORE_TIMESTAMP
from wakelog.dispatchers.arrivals import TopicPuts, batch_arrivals, count_puts
from wakelog.dispatchers.dispatcher import CoreDispatcher, DispatchBatch
from wakelog.dispatchers.lagging_dispatcher import LaggingDispatcher
from wakelog.dispatchers.log_cursor import CursorStatistics, LogCursor, LogReader
from wakelog.dispatchers.read_ahead import Ahead, Worker
from wakelog.dispatchers.sync_files import sync_directories, sync_files
from wakelog.storage.config import BrokerRole, StoreConfig
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.durability.dispatched import IndexEnd
from wakelog.storage.file_system import FileSystem
from wakelog.storage.queue.entries import Arrival

__all__ = ["DispatchDecision", "FlushJob", "Reput", "ReputStatistics", "TopicPuts"]


class DispatchDecision(NamedTuple):
    """The result of a step, and what the shell has to do.

    dispatched: every dispatcher but a lagging one has all records below; publish it if it is higher
        than before.
    arrivals: the queues to wake, after `dispatched` is published; empty on a slave.
    topic_puts: by topic; only on a slave.
    more: more is readable now, or the lagging one is behind; step again without waiting.
    """

    dispatched: int
    arrivals: list[Arrival]
    topic_puts: dict[str, TopicPuts]
    more: bool


class FlushJob(NamedTuple):
    """Files and names to sync, in any thread, and what is durable after that.

    A checkpoint may state the two times as logicsMsgTimestamp and indexMsgTimestamp.
    `storage/durability/dispatched.py` keeps the position and the index's end.
    """

    fs: FileSystem
    paths: tuple[str, ...]
    directories: tuple[str, ...]
    position: int
    store_timestamp_ms: int
    index_timestamp_ms: int | None
    index_end: IndexEnd

    def run(self) -> None:
        """Sync. Raises: StoreFailed; then nothing of the job is durable, and Reput starts again."""
        sync_files(self.fs, self.paths)
        sync_directories(self.fs, self.directories)


class ReputStatistics(NamedTuple):
    """Frozen counters of Reput, of its cursor and of each dispatcher by name."""

    cursor: CursorStatistics
    arrivals_count: int
    failures_count: int
    dispatchers: dict[str, dict[str, int]]


class Reput:
    """See the module. One owner, one thread."""

    def __init__(
        self,
        fs: FileSystem,
        log: LogReader,
        dispatchers: Sequence[CoreDispatcher],
        config: StoreConfig,
        *,
        functions: ScanFunctions | None = None,
        skip_segment: bool = False,
        worker: Worker | None = None,
        ahead: Callable[[ScanFunctions], Ahead] | None = None,
        lagging: LaggingDispatcher | None = None,
    ) -> None:
        """Keep everything, read nothing.

        functions: of the compiled library; see `LogCursor`.
        skip_segment: `compat.skip_segment`, see `log_cursor.py`.
        worker: a thread that reads ahead, see `read_ahead.py`; it has to be idle or ended before
            the log is closed.
        ahead: makes the `Ahead` for compiled scans, instead of a `ReadAhead`.
        lagging: for one of the dispatchers, which may fall behind the others.
        """
        self._fs = fs
        self._dispatchers = tuple(dispatchers)
        self._lagging = lagging
        self._config = config
        self._cursor = LogCursor(
            log,
            config.delays_ms,
            functions=functions,
            skip_segment=skip_segment,
            worker=worker,
            ahead=ahead,
        )
        self._is_slave = config.broker_role is BrokerRole.SLAVE
        self._broken = False
        self._failures_count = 0
        self._arrivals_count = 0
        self._store_timestamp_ms = 0
        self._log_end = 0
        self._unsynced: list[str] = []
        self._unsynced_directories: list[str] = []

    @property
    def position(self) -> int:
        """All records below are dispatched, except by a lagging one."""
        return self._cursor.position

    @property
    def is_behind(self) -> bool:
        """Whether a lagging dispatcher has work left that needs no new record."""
        return self._lagging is not None and self._lagging.is_behind

    @property
    def is_broken(self) -> bool:
        """Whether the next step starts again; it cuts files, so that no flush job may run."""
        return self._broken

    def start(
        self,
        max_physical_offset: int,
        *,
        clean_exit: bool,
        dispatch_from: int | None = None,
        dispatched: int | None = None,
    ) -> int:
        """Let the dispatchers open their files; return the position at which dispatch begins.

        max_physical_offset: the log's end.
        clean_exit: the last broker stopped cleanly; otherwise the dispatchers check their files.
        dispatch_from: from recovery's report; None if the Broker did not recover now.
        dispatched: the shared watermark, if only Reput starts again and the Broker lives.
        """
        self._cursor.cancel_read_ahead()
        needed = [dispatcher.recover(max_physical_offset) for dispatcher in self._dispatchers]
        if not clean_exit:
            # No reader has seen what was half written above the watermark: it is made again.
            end = (
                max_physical_offset if dispatched is None else min(max_physical_offset, dispatched)
            )
            needed = [dispatcher.truncate(end) for dispatcher in self._dispatchers]
        known = [position for position in (dispatch_from, dispatched) if position is not None]
        self._cursor.move_to(min(max_physical_offset, *needed, *known), max_physical_offset)
        if self._lagging is not None:
            self._lagging.restart(self._cursor.position)
        self._log_end = max_physical_offset
        self._broken = False
        return self._cursor.position

    def step(
        self,
        readable: int,
        bytes_max: int,
        now_ms: int,
        *,
        confirm_offset: int = -1,
    ) -> DispatchDecision:
        """Dispatch up to about `bytes_max` bytes below `readable`.

        confirm_offset: used only with duplicationEnable.
        Raises: what a dispatcher raises (StoreFull, StoreFailed); the next call starts again.
        """
        if self._broken:
            self.start(max(readable, self._log_end), clean_exit=False, dispatched=self.position)
        limit = min(readable, confirm_offset) if self._config.duplication_enable else readable
        budget_end = self._cursor.position + bytes_max
        arrivals: list[Arrival] = []
        topic_puts: dict[str, TopicPuts] = {}
        waiting = False
        batch = self._cursor.read(limit, now_ms)
        while batch is not None:
            if len(batch):
                self._dispatch(batch)
                waiting = not batch.caught_up
                self._note(batch, arrivals, topic_puts)
            self._cursor.passed(batch)
            if self._lagging is not None:
                self._lagging.reached(self._cursor.position)
            if self._cursor.position >= budget_end:
                break
            batch = self._cursor.read(limit, now_ms)
        more = batch is not None and self._cursor.position < limit
        if waiting and not more:
            end = self._cursor.position
            self._dispatch(DispatchBatch(end, end, now_ms, requests=[]))
        more = self._end_lagging_step(now_ms) or more
        self._arrivals_count += len(arrivals)
        return DispatchDecision(self._cursor.position, arrivals, topic_puts, more)

    def prepare_flush(self) -> FlushJob:
        """Write what is kept in memory, and return the job that makes it durable."""
        position, store_timestamp_ms = self._cursor.position, self._store_timestamp_ms
        if self._lagging is not None:
            position = min(position, self._lagging.position)
        index_timestamp_ms: int | None = None
        index_end = IndexEnd()
        for dispatcher in self._dispatchers:
            part = dispatcher.prepare_flush()
            # Kept if a later dispatcher raises: the next job has to cover them.
            self._unsynced += part.paths
            self._unsynced_directories += part.directories
            if part.index_timestamp_ms is not None:
                index_timestamp_ms, index_end = part.index_timestamp_ms, part.index_end
        paths, self._unsynced = tuple(self._unsynced), []
        directories, self._unsynced_directories = tuple(self._unsynced_directories), []
        return FlushJob(
            self._fs,
            paths,
            directories,
            position,
            store_timestamp_ms,
            index_timestamp_ms,
            index_end,
        )

    def make_ahead(self) -> None:
        """Make files for the next new queues, in any thread, but not while `start` runs.

        Raises: StoreError; a file that could not be made is made when it is needed.
        """
        for dispatcher in self._dispatchers:
            dispatcher.make_ahead()

    def flush(self) -> FlushJob:
        """Make everything dispatched durable; return the job that was run."""
        job = self.prepare_flush()
        job.run()
        return job

    def trim(self, physical_offset: int) -> int:
        """Remove queue and index files of the log below `physical_offset`; return how many.

        Raises: StoreFailed.
        """
        return sum(item.remove_before(physical_offset) for item in self._dispatchers)

    def remove_queues(self, removal: QueueRemoval) -> int:
        """Remove queues for good; return how many there were.

        Records of the removed topics that are not dispatched yet get no entries.
        Raises: TooManyDeleted, IllegalName, StoreFull, StoreFailed.
        """
        return sum(item.remove_queues(removal) for item in self._dispatchers)

    def dispatch_again(self, physical_offset: int) -> None:
        """Go back to an offset: queues from there on are made again. Others have their entries."""
        assert not self._broken and not self.is_behind
        self._cursor.move_to(physical_offset, self._cursor.position)
        if self._lagging is not None:
            self._lagging.restart(self._cursor.position)

    def catch_up(self, now_ms: int) -> bool:
        """Do one piece of a lagging dispatcher's work, and return whether there is more.

        Raises: what the dispatcher raises; the next step starts again.
        """
        return not self._broken and self._end_lagging_step(now_ms)

    def cancel_read_ahead(self) -> None:
        """Wait for what the worker reads ahead, so that the log may be closed."""
        self._cursor.cancel_read_ahead()

    def statistics(self) -> ReputStatistics:
        """Return frozen counters."""
        return ReputStatistics(
            self._cursor.statistics(),
            self._arrivals_count,
            self._failures_count,
            {item.name: dict(item.statistics()) for item in self._dispatchers},
        )

    def _dispatch(self, batch: DispatchBatch) -> None:
        lagging = self._lagging
        try:
            for dispatcher in self._dispatchers:
                if lagging is not None and dispatcher is lagging.dispatcher:
                    lagging.offer(batch)
                else:
                    dispatcher.dispatch(batch)
        except BaseException:
            self._on_failure()
            raise

    def _end_lagging_step(self, now_ms: int) -> bool:
        if self._lagging is None:
            return False
        try:
            return self._lagging.end_step(self._cursor.position, now_ms)
        except BaseException:
            self._on_failure()
            raise

    def _on_failure(self) -> None:
        self._broken = True
        self._failures_count += 1

    def _note(
        self,
        batch: DispatchBatch,
        arrivals: list[Arrival],
        topic_puts: dict[str, TopicPuts],
    ) -> None:
        """Note the queues to wake, or on a slave what was put."""
        columns = batch.columns
        if columns is not None:
            self._store_timestamp_ms = int(columns.numbers[columns.count - 1, STORE_TIMESTAMP])
        else:
            self._store_timestamp_ms = batch.requests[-1].store_timestamp_ms
        if self._is_slave:
            count_puts(batch, topic_puts)
        else:
            arrivals += batch_arrivals(batch, enable_lmq=self._config.enable_lmq)
