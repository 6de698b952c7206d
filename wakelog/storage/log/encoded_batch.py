"""EncodedBatch: the records of a batch, encoded before their place is known.

A batch of 30,000 messages takes 25 ms to encode, in pieces, and others append meanwhile. So its
records are encoded as if they began the log, and get their offsets and the store time when they are
placed. For so many that takes a millisecond, since numpy writes into all records at once; for a few
Python is faster.

A record has, one after the other: queue offset, physical offset, the flag, the time of birth and
its host, which are those of the batch, and the store time.

Source: org.apache.rocketmq.store.CommitLog.MessageExtBatchEncoder, and doAppend of
DefaultAppendMessageCallback, which writes the offsets under the lock (4.9.3).
"""

import functools
import struct
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

_OFFSETS = struct.Struct(">2q")
_TIMESTAMP = struct.Struct(">q")

STAMPED_BY_PYTHON_MAX = 200
"""Of more messages in a batch, numpy stamps the records."""


class EncodedBatch:
    """Records of messages of one topic and queue, to be stored one after the other.

    outer: all that they share. Its properties are appended to each one's own, which stay byte for
    byte as the client wrote them, so a name can occur twice.
    """

    def __init__(self, outer: MessageDraft, messages: Sequence[BatchedMessage] = ()) -> None:
        """Begin with some of the messages. Raises: LocalProtocolError."""
        self.outer = outer
        self.records = bytearray()
        self._positions = array("q")
        empty = msgspec.structs.replace(outer, body=b"", prepared_transaction_offset=0)
        self._empty = encode_draft(empty, b"", 0, 0, 0)
        self._properties = encode_properties_text(outer.properties_text)
        is_v6 = bool(outer.sys_flag & MESSAGE_BORN_HOST_V6)
        self._timestamp_at = STORE_TIMESTAMP_OFFSET_V4 + is_v6 * V6_EXTRA_BYTES
        self.add(messages)

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
        if begin:
            self.records += records
        else:
            self.records = records
        self._positions.extend(accumulate(sizes[:-1], initial=begin) if sizes else ())

    def stamp(self, queue_offset: int, physical_offset: int, timestamp_ms: int) -> tuple[int, ...]:
        """Write where the records are and when they were stored; return their offsets."""
        if len(self) > STAMPED_BY_PYTHON_MAX:
            return self._stamp_all(queue_offset, physical_offset, timestamp_ms)
        begin = QUEUE_OFFSET_OFFSET + _OFFSETS.size
        shared = self._empty[begin : self._timestamp_at] + _TIMESTAMP.pack(timestamp_ms)
        pack_into = _stamp_of(len(shared)).pack_into
        offsets = tuple(position + physical_offset for position in self._positions)
        places = zip(self._positions, offsets, strict=True)
        for number, (position, offset) in enumerate(places, queue_offset):
            pack_into(self.records, position + QUEUE_OFFSET_OFFSET, number, offset, shared)
        return offsets

    def _stamp_all(
        self, queue_offset: int, physical_offset: int, timestamp_ms: int
    ) -> tuple[int, ...]:
        positions = np.frombuffer(self._positions, np.int64)
        physical_offsets = positions + physical_offset
        offsets = np.empty((len(positions), 2), ">i8")
        offsets[:, 0] = np.arange(queue_offset, queue_offset + len(positions))
        offsets[:, 1] = physical_offsets
        self._at(_OFFSETS.size)[positions + QUEUE_OFFSET_OFFSET] = _fields(
            offsets.tobytes(), _OFFSETS.size
        )
        timestamp = _TIMESTAMP.pack(timestamp_ms)
        self._at(_TIMESTAMP.size)[positions + self._timestamp_at] = _fields(
            timestamp, _TIMESTAMP.size
        )[0]
        return tuple(physical_offsets.tolist())

    def _at(self, width_bytes: int) -> "np.ndarray[Any, Any]":
        """Return a view in which a field at any position is one element."""
        count = len(self.records) - width_bytes + 1
        return np.ndarray((count,), f"V{width_bytes}", self.records, strides=(1,))


@functools.cache
def _stamp_of(shared_bytes: int) -> struct.Struct:
    """Return the offsets of a record, and what it shares: that has one of two lengths."""
    return struct.Struct(f">2q{shared_bytes}s")


def _fields(data: bytes, width_bytes: int) -> "np.ndarray[Any, Any]":
    return np.frombuffer(data, f"V{width_bytes}")
