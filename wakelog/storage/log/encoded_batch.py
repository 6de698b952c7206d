"""EncodedBatch: the records of a long batch, encoded in pieces before their place is known.

A batch of 30,000 messages takes 25 ms to encode, and others append meanwhile. So its records are
encoded as if they began the log, and get their offsets and the store time when they are placed.
That takes a millisecond, since numpy writes into all records at once.

Invariants: once stamped, the records are those that `CommitLog.append_batch` places.

Source: org.apache.rocketmq.store.CommitLog.MessageExtBatchEncoder, and doAppend of
DefaultAppendMessageCallback, which writes the offsets under the lock (4.9.3).
"""

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np

from wakelog.protocol.batch import BatchedMessage, encode_records
from wakelog.protocol.record import (
    QUEUE_OFFSET_OFFSET,
    STORE_TIMESTAMP_OFFSET_V4,
    V6_EXTRA_BYTES,
)
from wakelog.protocol.sys_flag import MESSAGE_BORN_HOST_V6
from wakelog.storage.log.append import MessageDraft, encode_draft, encode_properties_text

_LONG_BYTES = 8
_OFFSETS_BYTES = 2 * _LONG_BYTES
"""The queue offset, and the physical offset that follows it."""


class EncodedBatch:
    """Records one after the other.

    outer: all that the messages share, as in a `BatchDraft`.
    """

    def __init__(self, outer: MessageDraft) -> None:
        """Begin without a message. Raises: LocalProtocolError."""
        self.outer = outer
        self.records = bytearray()
        self._positions = array("q")
        empty = msgspec.structs.replace(outer, body=b"", prepared_transaction_offset=0)
        self._empty = encode_draft(empty, b"", 0, 0, 0)
        self._properties = encode_properties_text(outer.properties_text)

    def __len__(self) -> int:
        """Return how many messages it has."""
        return len(self._positions)

    def add(self, messages: Sequence[BatchedMessage]) -> None:
        """Encode more messages. Raises: LocalProtocolError."""
        begin = len(self.records)
        records, sizes = encode_records(
            messages,
            self._empty,
            self._properties,
            queue_offset=len(self),
            physical_offset=begin,
        )
        self.records += records
        self._positions.extend(accumulate(sizes[:-1], initial=begin))

    def stamp(self, queue_offset: int, physical_offset: int, timestamp_ms: int) -> tuple[int, ...]:
        """Write where the records are and when they were stored; return their offsets."""
        positions = np.frombuffer(self._positions, np.int64)
        physical_offsets = positions + physical_offset
        offsets = np.empty((len(positions), 2), ">i8")
        offsets[:, 0] = np.arange(queue_offset, queue_offset + len(positions))
        offsets[:, 1] = physical_offsets
        self._at(_OFFSETS_BYTES)[positions + QUEUE_OFFSET_OFFSET] = _fields(
            offsets.tobytes(), _OFFSETS_BYTES
        )
        is_v6 = bool(self.outer.sys_flag & MESSAGE_BORN_HOST_V6)
        timestamp_at = STORE_TIMESTAMP_OFFSET_V4 + is_v6 * V6_EXTRA_BYTES
        timestamp = timestamp_ms.to_bytes(_LONG_BYTES, "big", signed=True)
        self._at(_LONG_BYTES)[positions + timestamp_at] = _fields(timestamp, _LONG_BYTES)[0]
        return tuple(physical_offsets.tolist())

    def _at(self, width_bytes: int) -> "np.ndarray[Any, Any]":
        """Return a view in which a field at any position is one element."""
        count = len(self.records) - width_bytes + 1
        return np.ndarray((count,), f"V{width_bytes}", self.records, strides=(1,))


def _fields(data: bytes, width_bytes: int) -> "np.ndarray[Any, Any]":
    return np.frombuffer(data, f"V{width_bytes}")
