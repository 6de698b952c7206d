"""The store as the Broker process holds it: the single writer of the log, the reader of all else.

Invariants:
- 4.9.3's lock is held from before the first write until close.
- Readers see an entry only when its message is dispatched; see `readable.py`.

Source: org.apache.rocketmq.store.DefaultMessageStore (4.9.3), without its threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wakelog.storage.results import GetResult, PutResult, QueryResult

if TYPE_CHECKING:
    from wakelog.protocol.message_record import MessageRecord
    from wakelog.storage.append import MessageDraft
    from wakelog.storage.config import StoreConfig
    from wakelog.storage.file_system import FileSystem
    from wakelog.storage.recovery import RecoveryReport


class MessageStore:
    """Put, get and look up messages of one store directory."""

    recovery: RecoveryReport

    @classmethod
    def open(
        cls, fs: FileSystem, config: StoreConfig, now_ms: int, *, physical_memory_bytes: int
    ) -> MessageStore:
        """Take the lock, recover, and return a store that is ready.

        physical_memory_bytes: of this machine; what lies further behind than 40 % of it counts
            as being on disk.

        Raises:
            StoreLocked: another broker, ours or 4.9.3's, has the store. Nothing was written.
            DamagedStore: a file has a length or name that cannot be continued.
        """
        raise NotImplementedError

    def close(self, *, dispatch_behind_bytes: int) -> None:
        """Flush, write the checkpoint, and mark a clean stop if nothing is behind."""
        raise NotImplementedError

    # Writing: gathers until write_pending.
    def put_message(self, draft: MessageDraft, now_ms: int) -> PutResult:
        """Place one message at the end of the log."""
        raise NotImplementedError

    def put_batch(self, drafts: Sequence[MessageDraft], now_ms: int) -> PutResult:
        """Place the messages of one batch one after the other, all or none."""
        raise NotImplementedError

    def write_pending(self) -> int:
        """Write what was put since the last call and return the log's end (`appended`)."""
        raise NotImplementedError

    @property
    def writable(self) -> bool:
        """Whether puts are accepted: not closed, not a slave, disk not full."""
        raise NotImplementedError

    def set_disk_full(self, full: bool) -> None:
        """Refuse or accept puts, as Retention's look at the disk said."""
        raise NotImplementedError

    # Watermarks that the Broker tells.
    def set_dispatched(self, physical_offset: int) -> None:
        """Let readers see the entries of messages that end at or below `physical_offset`."""
        raise NotImplementedError

    @property
    def dispatched(self) -> int:
        """How far readers see."""
        raise NotImplementedError

    # Reading.
    def get_message(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        count_max: int,
        *,
        match: Callable[[int], bool] | None = None,
        blocking: bool = True,
    ) -> GetResult | None:
        """Read messages of one queue from `queue_offset` on.

        match: called with the tags code of an entry; None lets every entry pass.
        blocking: False never waits for the disk; the answer is then None if it would have to.
        """
        raise NotImplementedError

    def look_message(
        self, physical_offset: int, size_bytes: int | None = None
    ) -> MessageRecord | None:
        """Decode the record at `physical_offset`, or None if there is none."""
        raise NotImplementedError

    def record_bytes(self, physical_offset: int, size_bytes: int | None = None) -> bytes | None:
        """Return the record at `physical_offset` as it is stored, or None if there is none."""
        raise NotImplementedError

    def query_message(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int
    ) -> QueryResult:
        """Find records by key through the index; may read from the disk."""
        raise NotImplementedError

    def max_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after the last readable entry, 0 for an unknown queue."""
        raise NotImplementedError

    def min_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the first queue offset whose message is still in the log."""
        raise NotImplementedError

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the queue offset whose store time is nearest, as 4.9.3 does (fact 49)."""
        raise NotImplementedError

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """Return the store time of the queue's first message, -1 if there is none."""
        raise NotImplementedError

    def store_time_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the store time of one message of a queue, -1 if there is none."""
        raise NotImplementedError

    def earliest_message_time(self) -> int:
        """Return the store time of the log's first message, -1 if there is none."""
        raise NotImplementedError

    def physical_offset_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return where a queue's message lies in the log, 0 if there is none, as 4.9.3 does."""
        raise NotImplementedError

    def in_memory_at(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Say whether an entry is near enough to the log's end to count as being in memory."""
        raise NotImplementedError

    def consume_queue_entries(
        self, topic: str, queue_id: int, begin: int, count_max: int
    ) -> list[tuple[int, int, int]]:
        """Return (physical offset, size, tags code) of readable entries from `begin` on."""
        raise NotImplementedError

    def queues(self) -> dict[str, list[int]]:
        """Return topic to queue ids of every consume queue on disk."""
        raise NotImplementedError

    @property
    def max_physical_offset(self) -> int:
        """The log's end, written bytes only."""
        raise NotImplementedError

    @property
    def min_physical_offset(self) -> int:
        """The log's first byte that is still there."""
        raise NotImplementedError

    def delete_topic(self, topic: str) -> int:
        """Forget the queues of `topic` and return how many there were."""
        raise NotImplementedError

    def statistics(self) -> dict[str, int]:
        """Return counters of the store by name."""
        raise NotImplementedError
