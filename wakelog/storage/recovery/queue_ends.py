"""Where each queue ends, as the log itself says: the queue offset after each queue's last record.

Recovery feeds it the records whose consume queue entries may be missing, so that the commit log
goes on numbering messages before Reput has caught up. 4.9.3 waits for Reput instead.

Source: org.apache.rocketmq.store.DefaultMessageStore.recoverTopicQueueTable, MultiDispatch (4.9.3).
"""

from __future__ import annotations

from wakelog.protocol.properties import (
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    decode_properties,
)
from wakelog.protocol.sys_flag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from wakelog.storage.log.queue_offsets import (
    MULTI_DISPATCH_SEPARATOR,
    QueueKey,
    multi_dispatch_keys,
)
from wakelog.storage.log.record_check import (
    HEAD_BY_HOST_FLAGS,
    HOST_FLAGS,
    HOST_FLAGS_OFFSET,
    Buffer,
)

# These records are in no queue and carry queue offset 0 (fact 15).
_NOT_CONSUMED = frozenset({TRANSACTION_PREPARED, TRANSACTION_ROLLBACK})
_MULTI_DISPATCH_BYTES = INNER_MULTI_DISPATCH.encode()


class QueueEnds:
    """Collects the last queue offset of every queue from sound records, in log order."""

    __slots__ = ("_enable_lmq", "_first", "_first_multi", "_multi_dispatch", "_next", "_next_multi")

    def __init__(self, *, enable_multi_dispatch: bool, enable_lmq: bool) -> None:
        """Start without any queue."""
        self._multi_dispatch = enable_multi_dispatch
        self._enable_lmq = enable_lmq
        self._first: dict[tuple[bytes, int], tuple[int, int]] = {}
        self._next: dict[tuple[bytes, int], int] = {}
        self._first_multi: dict[QueueKey, tuple[int, int]] = {}
        self._next_multi: dict[QueueKey, int] = {}

    def note(
        self,
        topic: bytes,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
        sys_flag: int,
        properties: Buffer,
    ) -> None:
        """Take in the next record of the log; a later record of a queue overrules earlier ones."""
        if sys_flag & TRANSACTION_MASK in _NOT_CONSUMED:
            return
        key = topic, queue_id
        if self._next.get(key) != queue_offset:
            self._first[key] = queue_offset, physical_offset
        self._next[key] = queue_offset + 1
        if self._multi_dispatch:
            text = bytes(properties)
            if _MULTI_DISPATCH_BYTES in text:
                self._note_multi(text.decode("utf-8", "replace"), queue_id, physical_offset)

    def note_record(self, buffer: Buffer, position: int) -> None:
        """Take in the sound record at buffer[position]."""
        head = HEAD_BY_HOST_FLAGS[buffer[position + HOST_FLAGS_OFFSET] & HOST_FLAGS]
        size, _, queue_id, queue_offset, physical_offset, sys_flag, _, _, body_bytes = (
            head.unpack_from(buffer, position)
        )
        topic_begin = position + head.size + max(body_bytes, 0) + 1
        topic_end = topic_begin + buffer[topic_begin - 1]
        topic = bytes(buffer[topic_begin:topic_end])
        properties = buffer[topic_end + 2 : position + size]
        self.note(topic, queue_id, queue_offset, physical_offset, sys_flag, properties)

    def table(self) -> dict[QueueKey, int]:
        """Return the next queue offset of each (topic, queue id) that was seen."""
        table = {
            (topic.decode("utf-8", "replace"), queue_id): next_offset
            for (topic, queue_id), next_offset in self._next.items()
        }
        return table | self._next_multi

    def first(self, key: QueueKey) -> tuple[int, int] | None:
        """Return queue offset and place of a queue's first record that was seen, None without one.

        Of those behind each other: a topic that was deleted and made again begins anew.
        """
        topic, queue_id = key
        return self._first.get((topic.encode(), queue_id), self._first_multi.get(key))

    def _note_multi(self, properties_text: str, queue_id: int, physical_offset: int) -> None:
        properties = decode_properties(properties_text)
        names = properties.get(INNER_MULTI_DISPATCH, "")
        offsets = properties.get(INNER_MULTI_QUEUE_OFFSET, "").split(MULTI_DISPATCH_SEPARATOR)
        if not names.strip():
            return
        keys = multi_dispatch_keys(names, queue_id, enable_lmq=self._enable_lmq)
        if len(keys) != len(offsets):
            return  # as dispatch does: such a message reaches none of the queues
        for key, offset in zip(keys, offsets, strict=True):
            if offset.isascii() and offset.isdigit():
                if self._next_multi.get(key) != int(offset):
                    self._first_multi[key] = int(offset), physical_offset
                self._next_multi[key] = int(offset) + 1
