"""One broker's store in one thread: what Broker, Flush and Reput do, from the same cores.

Plain calls in a fixed order replace the actors' shells. Cores, files and their order are those of
production. They are `MessageStore`, `Flush`, `SegmentSync` over duplicates of the log's
descriptors, `Dispatch` with `Reput`, the dispatchers and the checkpoint. Consumers pull what is
dispatched, and consumer offsets are saved as the Broker saves them.

Source: wakelog.actors.broker.service, wakelog.actors.services.flush,
wakelog.actors.services.dispatch.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from tests.fakes.logs import batch_of
from tests.fakes.stores import place_of
from tests.simulation.client import (
    Acknowledged,
    Committed,
    Committing,
    Deleted,
    Deleting,
    QueueKey,
    Recovered,
    Sent,
    Shown,
    Trimmed,
)
from tests.simulation.disk import SimulatedDisk, SimulatedFileSystem
from tests.simulation.units import TAG, UNIT_FILE_BYTES, filter_file
from wakelog.actors.services.dispatch import STEP_BYTES_MAX, Dispatch
from wakelog.actors.services.plugin_threads import PluginThreads
from wakelog.actors.services.session import AttachRequest
from wakelog.dispatchers.reput import DispatchDecision
from wakelog.protocol.properties import INNER_MULTI_DISPATCH, encode_properties
from wakelog.protocol.record import encode_record
from wakelog.storage.config import FlushDiskType, StoreConfig
from wakelog.storage.durability.checkpoint import Checkpoint
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.durability.sum_keeper import SumWriter
from wakelog.storage.durability.watermark import Watermark
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.append import MessageDraft, PutStatus
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.flush import Flush, SegmentSync
from wakelog.storage.message_store import MessageStore
from wakelog.storage.retention.retention_files import remove_segment
from wakelog.storage.store_parts import OpenOptions

ROOT = "/store"
OFFSETS = "consumerOffset.json"
BEGIN_MS = 1_700_000_000_000
MEMORY_BYTES = 1 << 30
SEGMENT_BYTES = 2048
QUEUE_FILE_ENTRIES = 4
TOPICS = ("TopicA", "TopicB")


def simulated_config(*, synchronous: bool = True, **values: Any) -> StoreConfig:
    """Return a configuration whose files are so small that a few messages fill them."""
    flush = FlushDiskType.SYNC_FLUSH if synchronous else FlushDiskType.ASYNC_FLUSH
    defaults: dict[str, Any] = {
        "store_path_root": ROOT,
        "commit_log_file_bytes": SEGMENT_BYTES,
        "consume_queue_file_bytes": QUEUE_FILE_ENTRIES * 20,
        "index_slot_count": 8,
        "index_entry_count": 12,
        "consume_queue_extension_file_bytes": UNIT_FILE_BYTES,
        "flush_disk_type": flush,
    }
    return StoreConfig(**defaults | values)


class SimulatedDispatch(Dispatch):
    """`Dispatch` on the simulation's clock, without plug-ins."""

    now_ms = BEGIN_MS

    def step(self, readable: int) -> DispatchDecision:
        return self.core.step(readable, STEP_BYTES_MAX, self.now_ms)

    @staticmethod
    def _start_plugins(fs: FileSystem, config: StoreConfig, log_end: int) -> PluginThreads:
        return PluginThreads("", [], {})


class Machine:
    """A broker that was started on a disk, and its clients."""

    def __init__(self, disk: SimulatedDisk, config: StoreConfig, now_ms: int = BEGIN_MS) -> None:
        """Start: recover, attach Flush and Reput. Raises: StoreError."""
        self.disk = disk
        self.config = config
        self.now_ms = now_ms
        self.fs: SimulatedFileSystem = disk.process()
        self.store = self._open_store()
        end = self.store.recovery.log_end
        disk.mark(Recovered(end))
        self.flushed = self.readable = end
        self.sent_count = 0
        self._stored_ms = 0
        self._shown: dict[QueueKey, int] = {}
        self._files = ConfigFiles(self.fs, config.paths.config)
        self.flush_core = Flush(config, end, now_ms)
        self.segments = SegmentSync(self.fs, config.commit_log_file_bytes)
        self.further_steps: dict[str, Callable[[], object]] = {"delete": self.delete_topic}
        try:
            self._checkpoint = Checkpoint(self.fs, config.paths.checkpoint)
            self._watermark = Watermark(self.fs, config.paths.watermark)
            self.dispatch = self._open_dispatch()
            self._adopt()
        except StoreError:
            self.abandon()
            raise

    def _open_store(self) -> MessageStore:
        return MessageStore.open(
            self.fs,
            self.config,
            self.now_ms,
            physical_memory_bytes=MEMORY_BYTES,
            options=OpenOptions(),
        )

    def _open_dispatch(self, *, recovered: bool = True) -> SimulatedDispatch:
        recovery = self.store.recovery
        known = AttachRequest(
            epoch=1,
            store_id="",
            appended=self.store.log.appended_offset,
            committed=self.store.max_physical_offset,
            flushed=self.flushed,
            readable=self.readable,
            dispatched=self.store.dispatched,
            delay_positions={},
            clean_exit=recovery.clean_exit,
            dispatch_from=recovery.dispatch_from if recovered else None,
        )
        has_units = self.config.enable_consume_queue_extension
        if has_units:
            self._set_filters()
        dispatch = SimulatedDispatch(self.fs, self.config, known, calculates_bitmaps=has_units)
        dispatch.now_ms = self.now_ms
        return dispatch

    def put(self, topic: str, queue_id: int, body: bytes, *, keys: str = "", tag: str = "") -> bool:
        """Put one message, and write it; True if the log took it."""
        draft = self._draft(topic, queue_id, body, keys, tag)
        result = self.store.put_message(draft, self.now_ms)
        if result.status is not PutStatus.PUT_OK:
            return False
        self._note_sent(
            draft, result.physical_offset, result.queue_offset, result.store_timestamp_ms
        )
        return self._write()

    def put_light(self, topic: str, queue_id: int, body: bytes, names: tuple[str, ...]) -> bool:
        """Put one message that goes to light queues as well; True if the log took it."""
        draft = self._draft(topic, queue_id, body, "", TAG)
        draft.properties_text = encode_properties(
            {"TAGS": TAG, INNER_MULTI_DISPATCH: ",".join(names)}
        )
        result = self.store.put_message(draft, self.now_ms)
        if result.status is not PutStatus.PUT_OK:
            return False
        self._stored_ms = result.store_timestamp_ms
        sent = Sent(
            result.physical_offset,
            bytes(self.store.log._pending[-1]),  # the log has put its offsets among the properties
            draft.topic,
            draft.queue_id,
            result.queue_offset,
            (),
            java_hash(TAG),
            result.store_timestamp_ms,
            tuple(((name, 0), self._light_end(name)) for name in names),
        )
        self.disk.mark(sent)
        return self._write()

    def _light_end(self, name: str) -> int:
        """Count, of what was sent, the messages of a light queue."""
        further = (key for sent in self.disk.view.sent.values() for key, _ in sent.further)
        return sum(key == (name, 0) for key in further)

    def put_batch(self, topic: str, queue_id: int, bodies: list[bytes]) -> bool:
        """Put the messages of one batch, and write them; True if the log took them."""
        drafts = [
            self._draft(topic, queue_id, body, f"key{i}", "") for i, body in enumerate(bodies)
        ]
        result = self.store.put_batch(batch_of(drafts), self.now_ms)
        if result.status is not PutStatus.PUT_OK:
            return False
        for i, draft in enumerate(drafts):
            place = result.physical_offsets[i]
            self._note_sent(draft, place, result.queue_offset + i, result.store_timestamp_ms)
        return self._write()

    def flush(self) -> bool:
        """Sync the log and acknowledge; False if the sync failed, and then nothing is."""
        self._adopt()
        core = self.flush_core
        decision = core.step(
            committed_offset=self.store.log.committed_offset,
            appended_offset=self.store.log.appended_offset,
            now_ms=self.now_ms,
            force=True,
        )
        if decision.flush_to is None:
            return core.failure is None
        try:
            self.segments.sync(core.flushed_offset, decision.flush_to)
        except StoreError as error:
            core.failed(str(error))
            self.store.log.fail(str(error))
            return False
        core.succeeded(decision.flush_to)
        self.flushed = decision.flush_to
        self.disk.mark(Acknowledged(self.flushed, is_synchronous=True))
        self._update_readable()
        self._write_durable()
        return True

    def _write_durable(self) -> None:
        """Do as Flush after a sync, but each time."""
        if self._stored_ms:
            with suppress(StoreError):
                self._watermark.note(self.flushed, self._stored_ms)
                self._checkpoint.set_physic(self._stored_ms)

    def dispatch_step(self) -> None:
        """Dispatch what is readable and let the consumers see it. Raises: StoreError."""
        self.dispatch.now_ms = self.now_ms
        while self.dispatch.step(self.readable).more:
            pass
        self.store.set_dispatched(self.dispatch.core.position)
        self._consume()

    def flush_derived(self) -> None:
        """Make queues, index and the checkpoint durable; where that fails, Reput starts again.

        Raises: StoreError.
        """
        try:
            self.dispatch.run(self.dispatch.core.prepare_flush())
        except StoreError:
            # Reput's process ends, and another one is attached to the same Broker.
            self.dispatch = self._open_dispatch(recovered=False)
            raise

    def kill_reput(self) -> None:
        """Let Reput's process die with what it had not synced; another one is attached.

        Raises: StoreError.
        """
        self.dispatch = self._open_dispatch(recovered=False)

    def commit_offsets(self) -> None:
        """Save how far the consumers are. Raises: StoreError."""
        table = {f"{topic}@{queue}": end for (topic, queue), end in sorted(self._shown.items())}
        text = msgspec.json.encode({"offsetTable": table, "at": self.now_ms}).decode()
        self.disk.mark(Committing(text))
        self._files.save(OFFSETS, text)
        self.disk.mark(Committed(text))

    def load_offsets(self) -> str | None:
        """Return the saved offsets. Raises: StoreError."""
        return self._files.load(OFFSETS, lambda text: _checked_json(text))

    def trim(self) -> None:
        """Remove the oldest segment, as Retention and Reput do. Raises: StoreError."""
        files = commit_log_files(self.fs, self.config, read_only=True)
        files.refresh()
        first = files.first
        limit = min(self.dispatch.core.position, self.flushed)
        if first is not None and first.end_offset <= limit and len(files.files) > 1:
            self.disk.mark(Trimmed(first.end_offset))
            remove_segment(self.fs, files, first.start_offset)
            self.store.log.files.forget_before(first.end_offset)
            self.dispatch.core.trim(first.end_offset)
        files.close()

    def delete_topic(self) -> None:
        """Delete a topic, as Broker and Reput do. Raises: StoreError."""
        topic = TOPICS[0]
        removal = self.store.begin_removal([topic])
        if removal is None:
            return
        self.disk.mark(Deleting(topic, removal.physical_offset))
        self.dispatch.core.remove_queues(removal)
        self.store.end_removal(removal, removed=True)
        self._shown = {key: end for key, end in self._shown.items() if key[0] != topic}
        self.disk.mark(Deleted(topic))

    def settle(self) -> None:
        """Go on until nothing is open, and check what became of all. Raises: Violation."""

    def sum_durable(self) -> None:
        """Keep sums of what is durable, as Retention does. Raises: StoreError."""
        writer = SumWriter(self.fs, self.config)
        while writer.step(self._watermark.mark.physical_offset, SEGMENT_BYTES):
            pass
        writer.close()

    def stop(self) -> bool:
        """Stop in order; True if nothing is left to recover. Raises: StoreError."""
        synced = self.flush()
        if synced:
            self.dispatch_step()
        behind = self.store.max_physical_offset - self.dispatch.core.position
        try:
            self.dispatch.close()
        except StoreError:
            behind = max(behind, 1)
        self.segments.close()
        self._checkpoint.close()
        self._watermark.close()
        return self.store.close(dispatch_behind_bytes=behind)

    def abandon(self) -> None:
        """Die: nothing more is written, the page cache stays."""
        self.fs.kill()
        self.store._parts.lock.release()  # the process-wide table, which a real death empties

    def validate(self) -> None:
        """Assert what holds between calls."""
        self.store.log.validate()

    def _set_filters(self) -> None:
        fd = self.fs.open(self.config.paths.filters, create=True)
        self.fs.pwrite(fd, filter_file(TOPICS), 0)
        self.fs.close(fd)

    def _draft(self, topic: str, queue_id: int, body: bytes, keys: str, tag: str) -> MessageDraft:
        self.sent_count += 1
        pairs = {name: value for name, value in (("KEYS", keys), ("TAGS", tag)) if value}
        return MessageDraft(
            topic=topic,
            queue_id=queue_id,
            body=body,
            properties_text=encode_properties(pairs),
            born_timestamp_ms=self.now_ms,
            born_host=("127.0.0.1", 40_000),
            store_host=("127.0.0.1", 10_911),
        )

    def _note_sent(
        self, draft: MessageDraft, physical_offset: int, queue_offset: int, store_ms: int
    ) -> None:
        record = encode_record(
            queue_id=draft.queue_id,
            flag=0,
            queue_offset=queue_offset,
            physical_offset=physical_offset,
            sys_flag=0,
            born_timestamp_ms=draft.born_timestamp_ms,
            born_host=draft.born_host,
            store_timestamp_ms=store_ms,
            store_host=draft.store_host,
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=draft.body,
            topic=draft.topic,
            properties=draft.properties_text.encode(),
        )
        properties = dict(
            pair.split("\x01", 1) for pair in draft.properties_text.split("\x02") if pair
        )
        self._stored_ms = store_ms
        self.disk.mark(
            Sent(
                physical_offset,
                record,
                draft.topic,
                draft.queue_id,
                queue_offset,
                tuple(properties.get("KEYS", "").split()),
                java_hash(properties.get("TAGS", "")),
                store_ms,
            )
        )

    def _write(self) -> bool:
        try:
            self.store.write_pending()
        except StoreError:
            return False
        if not self.config.synchronous_flush:
            self.disk.mark(Acknowledged(self.store.log.appended_offset, is_synchronous=False))
        self._update_readable()
        return True

    def _update_readable(self) -> None:
        """Do as the Broker: `flushed` under synchronous flush, else what the segments hold."""
        self.readable = (
            self.flushed if self.config.synchronous_flush else self.store.max_physical_offset
        )

    def _consume(self) -> None:
        for topic, queues in self.store.queues().items():
            for queue_id in queues:
                self._pull(topic, queue_id)

    def _pull(self, topic: str, queue_id: int) -> None:
        key = (topic, queue_id)
        end = self.store.max_queue_offset(topic, queue_id)
        if end > self._shown.get(key, 0):
            self._shown[key] = end
            place = place_of(self.store, topic, queue_id, end - 1)
            self.disk.mark(Shown(key, end - 1, place))

    def _adopt(self) -> None:
        """Send Flush duplicates of the descriptors that the log writes through."""
        held = set(self.segments.start_offsets)
        for file in self.store.log.files.files:
            if file.start_offset not in held and file.end_offset > self.flush_core.flushed_offset:
                self.segments.adopt(file.start_offset, self.fs.duplicate(file.fd))


def java_hash(text: str) -> int:
    """Return Java's String.hashCode, which is an ASCII tag's code."""
    value = 0
    for byte in text.encode():
        value = (31 * value + byte) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _checked_json(text: str) -> str:
    msgspec.json.decode(text)
    return text
