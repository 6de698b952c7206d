"""The store as the Broker process uses it: the only writer of the log, a reader of the rest.

    open     take 4.9.3's lock, commit what a dead broker left in the transient pool, recover,
             make the abort file; then the log can be written
    put      place messages; `write_pending` writes them
    get      read what Reput has dispatched, up to `set_dispatched`
    close    write and sync what is left, record it in the checkpoint, remove the abort file

The Reput process writes consume queues and index. This object never writes them while it is open.
It reads their files up to the watermark `dispatched`.

Threads: one thread makes all puts. Any thread may read: each call borrows readers that no other
call has.

Invariants:
- The lock is held from before the first write until after the last.
- dispatched <= max_physical_offset, and neither moves down.
- The abort file goes only if the log is synced and every record is dispatched.

Source: org.apache.rocketmq.store.DefaultMessageStore (4.9.3), without its threads, timers and
replication. 4.9.3 takes the lock after recovery has changed the store.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from wakelog.protocol.record import MessageRecord
from wakelog.protocol.send_run import PLACED_COUNT, QUEUE_COLUMNS, RunRules, SendRun
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.deleted_topics import QueueRemoval, read_deleted_topics
from wakelog.storage.errors import NotWriteable, StoreFailed, StoreFull
from wakelog.storage.file_system import Buffer, DiskUsage, FileSystem
from wakelog.storage.log.append import (
    MessageDraft,
    PutResult,
    PutStatus,
    StoredRun,
)
from wakelog.storage.log.commit_log import CommitLog
from wakelog.storage.log.encoded_batch import EncodedBatch
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.log.transient_pool import TransientPool
from wakelog.storage.paths import check_topic_name
from wakelog.storage.queue.consume_queue import ColdEntry
from wakelog.storage.queue.consume_queue_ext import ExtensionUnit
from wakelog.storage.queue.entries import ENTRY, QueueEntry
from wakelog.storage.read.query import QueryResult
from wakelog.storage.read.reader import (
    GetRequest,
    GetResult,
    GetStatus,
    LogView,
)
from wakelog.storage.read.recent import RecentEntries
from wakelog.storage.read.store_readers import StoreReaders
from wakelog.storage.recovery.quarantine import Quarantined, measure_quarantine
from wakelog.storage.recovery.queues import list_queue_ids, list_queues
from wakelog.storage.recovery.steps import RecoveryReport
from wakelog.storage.store_parts import (
    OpenOptions,
    StoreParts,
    close_parts,
    make_durable,
    open_parts,
)

NO_QUEUES: Mapping[QueueKey, int] = MappingProxyType({})

_NOT_AVAILABLE = PutResult(PutStatus.SERVICE_NOT_AVAILABLE)
_DISK_FULL = PutResult(PutStatus.SERVICE_NOT_AVAILABLE, cause="the broker's disk is full")


class MessageStore:
    """Put, get and query messages of one store directory.

    dispatched: how far readers see; `set_dispatched` raises it. recent: what is above, for pulls.
    disk_full: whether Retention found the disk full last.
    held_end: readers see no record that ends above; None if they see the whole log.
    write_pending: writes what was put since the last call; it is `CommitLog.write_pending`.
    last_store_timestamp_ms: of the last message that was put, 0 if there never was one.
    """

    def __init__(self, parts: StoreParts, readers: StoreReaders) -> None:
        """Use `open` instead."""
        self.config: StoreConfig = parts.config
        self.recovery: RecoveryReport = parts.report
        self.log: CommitLog = parts.log
        self.write_pending = parts.log.write_pending
        self._parts = parts
        self._readers = readers
        self.disk_full = False
        self.held_end: int | None = None
        self._closed = False
        self._refusal: str | None = None
        self._refused = _NOT_AVAILABLE
        self._accepts = parts.config.appends
        self.dispatched = parts.report.dispatch_from
        self.recent = RecentEntries(parts.config, readers.read_nowait, lambda: self.dispatched)
        self.last_store_timestamp_ms = parts.report.last_store_timestamp_ms
        self._put_count = self._put_bytes = self._put_failed_count = 0
        self._get_found_count = self._get_missed_count = self._get_cold_count = 0
        self._get_message_count = self._get_message_bytes = 0

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        config: StoreConfig,
        now_ms: int,
        *,
        physical_memory_bytes: int,
        options: OpenOptions | None = None,
    ) -> "MessageStore":
        """Take the lock, recover, and return a store that is ready to be written.

        Readers see what Reput had dispatched before. The Broker accepts clients once Reput has
        reached `recovery.log_end`.

        physical_memory_bytes: of this machine. Messages further below the log's end than 40 % of
            it count as being on disk.

        Raises:
            StoreLocked: another broker, ours or 4.9.3's, has the store. Nothing was written.
            DamagedStore: only a guess could go on with these files. Nothing was cut.
            StoreFull, StoreFailed: the disk refused.
        """
        parts = open_parts(fs, config, now_ms, options or OpenOptions())
        readers = StoreReaders(
            fs,
            config,
            physical_memory_bytes=physical_memory_bytes,
            damaged=[range(stretch.begin, stretch.end) for stretch in parts.report.damaged],
        )
        return cls(parts, readers)

    def close(self, *, dispatch_behind_bytes: int) -> bool:
        """Write and sync what is left, release the lock, and return whether the stop was clean.

        dispatch_behind_bytes: how much of the log Reput has not dispatched. Unless it is 0 the
            abort file stays, as after a failure, and the next start recovers as after a crash.

        Raises: StoreError, after everything was closed.
        """
        assert not self._closed
        self._closed = True
        self._accepts = False
        self._readers.close()
        return close_parts(
            self._parts,
            last_store_timestamp_ms=self.last_store_timestamp_ms,
            clean=dispatch_behind_bytes == 0,
        )

    def put_message(self, draft: MessageDraft, now_ms: int) -> PutResult:
        """Place one message at the end of the log; `write_pending` writes it."""
        if not self._accepts:
            self._put_failed_count += 1
            return self._refused
        result = self.log.append(draft, now_ms)
        if result.status is not PutStatus.PUT_OK:
            return self._counted(result, 1)
        self._put_count += 1
        self._put_bytes += result.size_bytes
        self.last_store_timestamp_ms = result.store_timestamp_ms
        return result

    def put_run(
        self, run: SendRun, sys_flags: Sequence[int | None], rules: RunRules, now_ms: int
    ) -> StoredRun | None:
        """Place sends up to one that needs more than that; see `CommitLog.append_run`."""
        if not self._accepts:
            return None
        stored = self.log.append_run(run, sys_flags, rules, now_ms)
        if stored is not None:
            self.last_store_timestamp_ms = self.log.store_timestamp_ms
        return stored

    def count_run(self, stored: StoredRun) -> None:
        """Count the messages of a run that was put."""
        self._put_count += sum(stored.queues[PLACED_COUNT::QUEUE_COLUMNS])
        self._put_bytes += len(stored.placed.records)

    def put_batch(self, batch: EncodedBatch, now_ms: int) -> PutResult:
        """Place the messages of one batch one after the other, all or none."""
        if not self._accepts:
            self._put_failed_count += 1
            return self._refused
        return self._counted(self.log.append_batch(batch, now_ms), len(batch))

    def append_bytes(
        self, physical_offset: int, data: Buffer, *, stored_ms: int, now_ms: int
    ) -> None:
        """Place bytes of a master's log at the end of this slave's; `write_pending` writes them.

        stored_ms: the store time of the last record among them, 0 if there is none.

        Raises: NotWriteable, with nothing placed.
        """
        assert not self.config.appends
        if self.disk_full or self._closed:
            raise NotWriteable("the disk is full" if self.disk_full else "the store is closed")
        self.log.append_bytes(physical_offset, data, now_ms)
        self.last_store_timestamp_ms = stored_ms or self.last_store_timestamp_ms

    def take_grown(self, physical_offset: int) -> set[str]:
        """Return the topics that got messages, and forget them if all may be read up to here."""
        grown = self.log.queue_offsets.grown
        if physical_offset >= self.log.end_offset:
            self.log.queue_offsets.grown = set()
        return grown

    def make_durable(self) -> None:
        """Write and sync all that was put. Raises: StoreError; the log then takes no more."""
        make_durable(self._parts)

    def renew_guard(self) -> None:
        """Keep 4.9.3 brokers out again after one was refused; may be called on any thread.

        Raises: StoreFailed.
        """
        if self._parts.guard is not None:
            self._parts.guard.renew()

    def use_settings(self) -> None:
        """Go by the configuration as it is now: some of it changes while the store is open."""
        self.log.message_bytes_max = self.config.message_bytes_max
        self._readers.use_settings()

    @property
    def kept_config(self) -> Mapping[str, str]:
        """Config files with another name while the store is open: from own name to present name."""
        return {} if self._parts.guard is None else self._parts.guard.kept

    @property
    def writable(self) -> bool:
        """Whether puts are accepted: open, no slave, not refused, not full, no write failed."""
        return self._accepts and self.log.failure is None

    def set_disk_full(self, full: bool) -> None:
        """Refuse or accept puts, by Retention's last measurement of the disk."""
        self.disk_full = full
        self._update_accepts()

    @property
    def lacks_space(self) -> bool:
        """Whether the disk has refused the log's last bytes, or is too full by Retention's limits.

        It may be so no more: only the next bytes, or the next measurement, tell.
        """
        return self.disk_full or isinstance(self.log.no_room, StoreFull)

    def refuse_puts(self, cause: str | None) -> None:
        """Refuse puts from now on, with a cause for the client; None accepts them again."""
        self._refusal = cause
        self._update_accepts()

    def _update_accepts(self) -> None:
        is_open = self._parts.config.appends and not self._closed
        self._accepts = is_open and not self.disk_full and self._refusal is None
        self._refused = _DISK_FULL if self.disk_full else _NOT_AVAILABLE
        if self._refusal is not None:
            self._refused = PutResult(PutStatus.SERVICE_NOT_AVAILABLE, cause=self._refusal)

    @property
    def transient_pool(self) -> TransientPool | None:
        """The buffers that the log writes before its segments, None without them."""
        return self._parts.pool

    def set_dispatched(self, physical_offset: int) -> None:
        """Let readers see the entries of messages that end at or below `physical_offset`.

        A lower offset than before changes nothing: complete entries stay complete.
        """
        if physical_offset > self.dispatched:
            self.dispatched = max(self.dispatched, min(physical_offset, self.max_physical_offset))

    @property
    def max_physical_offset(self) -> int:
        """The end of what can be read of the log: with a transient pool, of what is committed."""
        return self.log.committed_offset

    @property
    def min_physical_offset(self) -> int:
        """The first physical offset of the log."""
        return self.log.files.min_offset

    def get_message(self, request: GetRequest) -> GetResult | None:
        """Read messages of one queue; None if that needs the disk and may not wait.

        Raises: IllegalName, LacksVerdicts, StoreFailed.
        """
        readers = self._readers.borrow()
        try:
            result = readers.reader.get(request, self._view())
        finally:
            self._readers.give_back(readers)
        if result is None:
            self._get_cold_count += 1
        elif result.status is GetStatus.FOUND:
            self._get_found_count += 1
            self._get_message_count += result.count
            self._get_message_bytes += result.size_bytes
        else:
            self._get_missed_count += 1
        return result

    def read_ahead(self, physical_offset: int, length_bytes: int) -> None:
        """Have the disk read a part of the log, cut at its segment's end; may wait for it.

        Raises: StoreFailed.
        """
        with self._readers.lend() as readers:
            readers.log.read_ahead(physical_offset, length_bytes)

    def message_at(
        self, physical_offset: int, size_bytes: int | None = None, *, sees_held: bool = False
    ) -> MessageRecord | None:
        """Decode the record at `physical_offset`, or None if there is none.

        sees_held: also what readers may not see yet, for a record that is put after it.
        """
        with self._readers.lend() as readers:
            view = self._view(sees_held=sees_held)
            return readers.query.message_at(physical_offset, view, size_bytes)

    def message_at_nowait(
        self, physical_offset: int, *, sees_held: bool = False
    ) -> MessageRecord | None:
        """Do what `message_at` does; None also if the record is long or the disk is needed."""
        with self._readers.lend() as readers:
            view = self._view(sees_held=sees_held)
            return readers.query.message_at_nowait(physical_offset, view)

    def record_bytes(self, physical_offset: int, size_bytes: int | None = None) -> bytes | None:
        """Return the record at `physical_offset` as it is stored, or None if there is none."""
        with self._readers.lend() as readers:
            return readers.query.record_bytes(physical_offset, self._view(), size_bytes)

    def query_message(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int
    ) -> QueryResult:
        """Find records by key through the index; may wait for the disk."""
        with self._readers.lend() as readers:
            return readers.query.query_message(
                topic, key, count_max, self._view(), begin_ms=begin_ms, end_ms=end_ms
            )

    @property
    def light_queue_count(self) -> int:
        """The number of light queues (`%LMQ%...`) that have had a message."""
        return self.log.queue_offsets.light_count

    def max_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after the last readable entry, 0 for an unknown queue."""
        return self._queue_end(topic, queue_id, blocking=True)

    def max_queue_offset_nowait(self, topic: str, queue_id: int) -> int | None:
        """Do what `max_queue_offset` does if no disk is needed, else return None."""
        with suppress(ColdEntry):
            return self._queue_end(topic, queue_id, blocking=False)
        return None

    def min_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the first queue offset whose message is still in the log."""
        return self._queue_begin(topic, queue_id, blocking=True)

    def min_queue_offset_nowait(self, topic: str, queue_id: int) -> int | None:
        """Do what `min_queue_offset` does if no disk is needed, else return None."""
        with suppress(ColdEntry):
            return self._queue_begin(topic, queue_id, blocking=False)
        return None

    def _queue_end(self, topic: str, queue_id: int, *, blocking: bool) -> int:
        dispatched = self.dispatched
        with self._readers.lend() as readers:
            queue = readers.queues.find(topic, queue_id, dispatched, blocking=blocking)
            return 0 if queue is None else queue.end(dispatched, blocking=blocking)

    def _queue_begin(self, topic: str, queue_id: int, *, blocking: bool) -> int:
        dispatched, begin = self.dispatched, self.min_physical_offset
        with self._readers.lend() as readers:
            queue = readers.queues.find(topic, queue_id, dispatched, blocking=blocking)
            return 0 if queue is None else queue.begin(begin, dispatched, blocking=blocking)

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the queue offset whose store time is nearest, as 4.9.3 does (fact 49)."""
        with self._readers.lend() as readers:
            queue = readers.queues.find(topic, queue_id, self.dispatched)
            if queue is None:
                return 0
            return readers.query.offset_by_time(queue, timestamp_ms, self._view())

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """Return the store time of the queue's first message, -1 if there is none."""
        return self.store_time_at(topic, queue_id, self.min_queue_offset(topic, queue_id))

    def earliest_message_time(self) -> int:
        """Return the store time of the log's first message, -1 if there is none."""
        first = self.message_at(self.min_physical_offset)
        return -1 if first is None else first.store_timestamp_ms

    def disk_usages(self) -> dict[str, DiskUsage]:
        """Return the usage of the disk of each folder that is there; may wait for the disk."""
        paths = self.config.paths
        found = {}
        for path in (paths.root, paths.consume_queue_root, *paths.commit_log_directories):
            with suppress(OSError):
                found[path] = self._parts.fs.disk_usage(path)
        return found

    def quarantined(self) -> Quarantined:
        """Return what is kept aside of this store, 0 if the disk refuses; may wait for it."""
        with suppress(OSError, StoreFailed):
            return measure_quarantine(self._parts.fs, self.config.paths.root)
        return Quarantined(0, 0)

    def store_time_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the store time of one message of a queue, -1 if there is none."""
        entry = self._entry(topic, queue_id, queue_offset)
        if entry is None:
            return -1
        with self._readers.lend() as readers:
            return readers.query.store_time(entry.physical_offset, self._view())

    def in_memory_at(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Tell whether an entry counts as being in memory; a missing one does (fact 39)."""
        entry = self._entry(topic, queue_id, queue_offset)
        if entry is None:
            return True
        return self.max_physical_offset - entry.physical_offset <= self._readers.memory_bytes

    def consume_queue_entries(
        self, topic: str, queue_id: int, begin: int, count_max: int
    ) -> list[QueueEntry]:
        """Return readable entries from `begin` on, of one consume queue file at most."""
        with self._readers.lend() as readers:
            queue = readers.queues.find(topic, queue_id, self.dispatched)
            if queue is None or begin < 0:
                return []
            count = min(count_max, queue.end(self.dispatched) - begin)
            data = queue.queue.entries(begin, count) if count > 0 else b""
            return [QueueEntry._make(entry) for entry in ENTRY.iter_unpack(data)]

    def extension_unit(self, topic: str, queue_id: int, address: int) -> ExtensionUnit | None:
        """Return the extension unit an entry's tags code points to, None if there is none."""
        with self._readers.lend() as readers:
            queue = readers.queues.find(topic, queue_id, self.dispatched)
            if queue is None or queue.extension is None:
                return None
            return queue.extension.unit(address)

    def queues(self) -> dict[str, list[int]]:
        """Return topic to queue ids of every consume queue on disk."""
        found: dict[str, list[int]] = {}
        for topic, queue_id in list_queues(self._parts.fs, self.config.paths):
            found.setdefault(topic, []).append(queue_id)
        return found

    def queues_beyond(self, topic: str, queue_count: int) -> dict[int, int]:
        """Return the ends of a topic's queues from this id on that have messages; reads the disk.

        Nobody sends to them or reads them, since the topic was given fewer queues.
        """
        check_topic_name(topic)
        ids = sorted(list_queue_ids(self._parts.fs, self.config.paths, topic))
        beyond = {each: self.max_queue_offset(topic, each) for each in ids if each >= queue_count}
        return {
            queue_id: end
            for queue_id, end in beyond.items()
            if end > self.min_queue_offset(topic, queue_id)
        }

    def expired_queues(self) -> dict[QueueKey, int]:
        """Return the queues whose last message has expired, with their ends; reads the disk.

        Raises: StoreFailed.
        """
        found: dict[QueueKey, int] = {}
        begin = self.min_physical_offset
        for key in list_queues(self._parts.fs, self.config.paths):
            end = self.max_queue_offset(*key)
            last = self._entry(*key, end - 1)
            if last is not None and last.physical_offset + last.size_bytes < begin:
                found[key] = end
        return found

    def begin_removal(
        self, topics: Iterable[str], queues: Mapping[QueueKey, int] = NO_QUEUES
    ) -> QueueRemoval | None:
        """Close queues to messages; the process that writes their files removes those.

        queues: single ones with the ends that were found; those that got a message since stay.
        Returns: what to remove, to be given to `end_removal`; None if there is nothing.
        """
        offsets = self.log.queue_offsets
        wanted = tuple(topic for topic in topics if not offsets.is_closed(topic))
        single = {key: end for key, end in queues.items() if not offsets.is_closed(key[0])}
        dropped = offsets.close(wanted, single)
        if not dropped:
            return None
        self.recent.forget_until(self.log.end_offset)
        names = {topic for topic, _ in dropped}
        return QueueRemoval(
            tuple(topic for topic in wanted if topic in names),
            tuple(key for key in dropped if key in single),
            self.log.end_offset,
        )

    def end_removal(self, removal: QueueRemoval, *, removed: bool) -> None:
        """Accept messages again; new queues start at 0 if the old ones were removed."""
        topics = dict.fromkeys([*removal.topics, *(topic for topic, _ in removal.queues)])
        self.log.queue_offsets.open(tuple(topics), removed=removed)
        self._readers.forget()

    def forget_queues(self) -> None:
        """Know no queue any more: a slave's were removed, and made again."""
        self._readers.forget()

    def deleted_ends(self) -> dict[str, int]:
        """Return by topic below which offset its records are deleted; waits for the disk.

        Raises: StoreFailed.
        """
        return read_deleted_topics(self._parts.fs, self.config.paths)

    def statistics(self) -> dict[str, int]:
        """Return counters of the store by name."""
        return dict(
            min_physical_offset=self.min_physical_offset,
            max_physical_offset=self.max_physical_offset,
            appended_offset=self.log.appended_offset,
            dispatched=self.dispatched,
            put_count=self._put_count,
            put_bytes=self._put_bytes,
            put_failed_count=self._put_failed_count,
            get_found_count=self._get_found_count,
            get_missed_count=self._get_missed_count,
            get_message_count=self._get_message_count,
            get_message_bytes=self._get_message_bytes,
            get_cold_count=self._get_cold_count,
        )

    def _view(self, *, sees_held: bool = False) -> LogView:
        end = self.log.committed_offset
        if self.held_end is not None and not sees_held:
            end = min(end, self.held_end)
        return LogView(self.log.files.min_offset, end, self.dispatched)

    def _entry(self, topic: str, queue_id: int, queue_offset: int) -> QueueEntry | None:
        found = self.consume_queue_entries(topic, queue_id, queue_offset, 1)
        return found[0] if found and found[0].size_bytes > 0 else None

    def _counted(self, result: PutResult, message_count: int) -> PutResult:
        if result.status is PutStatus.PUT_OK:
            self._put_count += message_count
            self._put_bytes += result.size_bytes
            self.last_store_timestamp_ms = result.store_timestamp_ms
        else:
            self._put_failed_count += 1
        return result
