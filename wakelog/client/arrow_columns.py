"""Arrow arrays of pulled rows: the compiled walk over their bytes fills Arrow's buffers.

    bodies      copied out of the pulls, one after the other
    the rest    heads, topics and properties are kept together in a small buffer first

Python handles single messages where a body is compressed alone. Rows with text that is not UTF-8,
and with a body that does not inflate, are left to `arrow.py`, which makes the same of messages.

Invariants: a batch equals what `arrow.to_table` makes of the messages of these rows.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from wakelog.arrow_arrays import NOT_ASCII, Array, array_of, ids_of, pairs_of, spans_of
from wakelog.client.options import without_namespace
from wakelog.client.pulled_rows import PulledRows
from wakelog.compiled import fields as places
from wakelog.compiled import layout
from wakelog.compiled.columns import RowFunctions
from wakelog.protocol.compression import inflate
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.record import HEAD_BYTES_V4, V6_EXTRA_BYTES
from wakelog.protocol.sys_flag import (
    MESSAGE_BORN_HOST_V6,
    MESSAGE_COMPRESSED,
    MESSAGE_STORE_HOST_V6,
)


class LeftToMessages(Exception):
    """These rows have something that is made of messages."""


class RowColumns:
    """The rows of some pulls of one consumer, and the arrays that are made of them."""

    def __init__(self, functions: RowFunctions, pulls: Sequence[PulledRows], namespace: str):
        """Keep heads, topics and properties together. The pulls have one row at least."""
        self._functions = functions
        self._pulls = pulls
        self._namespace = namespace
        found = [each.numbers for each in pulls]
        numbers = found[0] if len(found) == 1 else np.concatenate(found)
        self._ends = _record_ends(numbers)
        extra = _v6_bytes(numbers, MESSAGE_BORN_HOST_V6) + _v6_bytes(numbers, MESSAGE_STORE_HOST_V6)
        self._body_begins = self._ends - numbers[:, layout.SIZE] + HEAD_BYTES_V4 + extra
        self._body_ends = numbers[:, layout.TOPIC_BEGIN] - 1
        count = len(numbers)
        bodies_bytes = int((self._body_ends - self._body_begins).sum())
        self._kept = bytearray(int(numbers[:, layout.SIZE].sum()) - bodies_bytes)
        self._bodies_bytes = bodies_bytes
        self.numbers: Array = np.empty_like(numbers)
        self._keep(count)
        self._fields: Array = np.empty((count, places.FIELDS), dtype=np.int64)
        rows = np.arange(count)
        functions.read_fields(self._kept, self.numbers, rows, self._fields, False)

    def _keep(self, count: int) -> None:
        table = np.zeros((2, 2 << count.bit_length()), dtype=np.int32)
        firsts = np.zeros(count + 1, dtype=np.int32)
        kept_end = row = 0
        for each in self._pulls:
            _, kept_end, row = self._functions.keep_records(
                *(each.body, each.numbers, 0, len(each), self._kept, kept_end),
                *(self.numbers, row, table, firsts),
            )
        if row != count:
            raise LeftToMessages

    def topics(self) -> pa.Array:
        """Return the topics, without the namespace."""
        return self._of_queues(lambda rows: without_namespace(self._namespace, rows.queue.topic))

    def brokers(self) -> pa.Array:
        """Return the names of the brokers."""
        return self._of_queues(lambda rows: rows.queue.broker_name)

    def _of_queues(self, text_of: Any) -> pa.Array:
        runs = groupby(self._pulls, key=text_of)
        return pa.concat_arrays([pa.repeat(text, sum(map(len, run))) for text, run in runs])

    def numbers_of(self, place: int, kind: Any) -> pa.Array:
        """Return a column of numbers."""
        return pa.array(self.numbers[:, place].astype(kind))

    def fields_of(self, place: int) -> pa.Array:
        """Return a column of fields, of 32 bits."""
        return pa.array(self._fields[:, place].astype(np.int32))

    def times(self, values_ms: Array) -> pa.Array:
        """Return times in milliseconds."""
        data = pa.py_buffer(np.ascontiguousarray(values_ms))
        return pa.Array.from_buffers(pa.timestamp("ms", tz="UTC"), len(values_ms), [None, data])

    def stored(self) -> pa.Array:
        """Return when the broker stored them."""
        return self.times(self.numbers[:, layout.STORE_TIMESTAMP])

    def born(self) -> pa.Array:
        """Return when their producers sent them."""
        return self.times(self._fields[:, places.BORN_TIMESTAMP])

    def ids(self, *, use_uniq: bool) -> pa.Array:
        """Return the ids of the broker, or of the producer where there is one."""
        is_v6 = self.numbers[:, layout.SYS_FLAG] & MESSAGE_STORE_HOST_V6 != 0
        given = self._functions, self._kept, self._fields, is_v6
        return _checked(*ids_of(*given, use_uniq=use_uniq))

    def property(self, begin: int, end: int) -> pa.Array:
        """Return one property, null where a row has none."""
        begins, ends = self._fields[:, begin], self._fields[:, end]
        return self._text(begins, ends, ends > begins)

    def _text(self, begins: Array, ends: Array, valid: Array | None = None) -> pa.Array:
        given = self._functions, self._kept, begins, ends, pa.string(), valid
        return _checked(*spans_of(*given))

    def properties(self, kind: pa.DataType) -> pa.Array:
        """Return the maps of properties."""
        row_ends, pairs = pairs_of(self._functions, self._kept, self.numbers)
        names = self._text(pairs[:, 0], pairs[:, 1])
        values = self._text(pairs[:, 2], pairs[:, 3])
        return pa.MapArray.from_arrays(pa.array(row_ends), names, values, type=kind)

    def bodies(self) -> pa.Array:
        """Return the bodies, inflated. Raises: LeftToMessages."""
        compressed = np.flatnonzero(self.numbers[:, layout.SYS_FLAG] & MESSAGE_COMPRESSED)
        if len(compressed):
            return self._inflated(set(compressed.tolist()))
        count = len(self.numbers)
        offsets: Array = np.empty(count + 1, dtype=np.int32)
        out: Array = np.empty(self._bodies_bytes, dtype=np.uint8)
        row = at = 0
        for each in self._pulls:
            end = row + len(each)
            begins, ends = self._body_begins[row:end], self._body_ends[row:end]
            part = offsets[row : end + 1]
            self._functions.gather(each.body, begins, ends, part, out[at:])
            size_bytes = int(part[-1])
            part += at
            row, at = end, at + size_bytes
        return array_of(pa.binary(), offsets, out)

    def _inflated(self, compressed: set[int]) -> pa.Array:
        found: list[bytes] = []
        row = 0
        for each in self._pulls:
            end = row + len(each)
            spans = zip(self._body_begins[row:end], self._body_ends[row:end], strict=True)
            for place, (body_begin, body_end) in enumerate(spans, row):
                body = bytes(each.body[body_begin:body_end])
                found.append(_inflate(body) if place in compressed else body)
            row = end
        return pa.array(found, pa.binary())


def _inflate(body: bytes) -> bytes:
    try:
        return bytes(inflate(body, MESSAGE_COMPRESSED))
    except (RemoteProtocolError, ModuleNotFoundError):
        raise LeftToMessages from None


def _record_ends(numbers: Array) -> Array:
    ends: Array = numbers[:, layout.PROPERTIES_BEGIN] + numbers[:, layout.PROPERTIES_BYTES]
    return ends


def _v6_bytes(numbers: Array, flag: int) -> Array:
    extra: Array = (numbers[:, layout.SYS_FLAG] & flag != 0) * V6_EXTRA_BYTES
    return extra


def _checked(array: pa.Array, seen: int) -> pa.Array:
    """Return text. seen: the or of its bytes. Raises: LeftToMessages if it is not UTF-8."""
    if seen & NOT_ASCII:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            raise LeftToMessages from None
    return array


def to_batch(
    functions: RowFunctions, pulls: Sequence[PulledRows], namespace: str, schema: pa.Schema
) -> pa.RecordBatch:
    """Return the rows of pulls as one batch. Raises: LeftToMessages."""
    rows = RowColumns(functions, pulls, namespace)
    arrays = {
        "topic": rows.topics(),
        "brokerName": rows.brokers(),
        "queueId": rows.numbers_of(layout.QUEUE_ID, np.int32),
        "queueOffset": rows.numbers_of(layout.QUEUE_OFFSET, np.int64),
        "msgId": rows.ids(use_uniq=True),
        "offsetMsgId": rows.ids(use_uniq=False),
        "tags": rows.property(places.TAGS_BEGIN, places.TAGS_END),
        "keys": rows.property(places.KEYS_BEGIN, places.KEYS_END),
        "flag": rows.fields_of(places.FLAG),
        "body": rows.bodies(),
        "properties": rows.properties(schema.field("properties").type),
        "bornTimestamp": rows.born(),
        "storeTimestamp": rows.stored(),
        "reconsumeTimes": rows.fields_of(places.RECONSUME_TIMES),
    }
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)
