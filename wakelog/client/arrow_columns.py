"""Arrow arrays of pulled rows: one compiled pass over their bytes fills Arrow's buffers.

Python inflates bodies that are compressed alone. Rows with text that is not UTF-8, and with a body
that does not inflate, are left to `arrow.py`, which makes the same of messages.

Invariants: a batch equals what `arrow.to_table` makes of the messages of these rows.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa

from wakelog.arrow_arrays import NOT_ASCII, Array, array_of
from wakelog.client.options import without_namespace
from wakelog.client.pulled_rows import PulledRows
from wakelog.compiled import fields as places
from wakelog.compiled import layout
from wakelog.compiled.columns import BatchFunctions
from wakelog.protocol.compression import inflate
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.record import RECORD_BYTES_MIN
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED

ID_BYTES_MAX: Final = 56
"""Of the broker's id of a host with a v6 address, in hexadecimal."""

BODIES, IDS, OFFSET_IDS, TAGS, KEYS, NAMES, VALUES = range(7)
PROPERTIES = NAMES
"""Texts, and offsets of rows, as `BatchFunctions.fill_batch` has them."""


class LeftToMessages(Exception):
    """These rows have something that is made of messages."""


class RowColumns:
    """The rows of some pulls of one consumer, and the arrays that are made of them."""

    def __init__(self, functions: BatchFunctions, pulls: Sequence[PulledRows], namespace: str):
        """Fill the buffers. The pulls have one row at least."""
        self._functions = functions
        self._pulls = pulls
        self._namespace = namespace
        count = sum(map(len, pulls))
        of_properties = sum(int(each.numbers[:, layout.PROPERTIES_BYTES].sum()) for each in pulls)
        of_bodies = sum(each.size_bytes for each in pulls) - of_properties
        of_ids = ID_BYTES_MAX * count
        rooms = (
            *(of_bodies - RECORD_BYTES_MIN * count, of_ids + of_properties, of_ids),
            *(of_properties,) * 4,
        )
        properties_max = of_properties // places.PAIR_BYTES_MIN + count
        self._texts: list[Array] = [np.empty(room, dtype=np.uint8) for room in rooms]
        self._state: Array = np.zeros(2 + len(rooms), dtype=np.int64)
        self._longs: Array = np.empty((3, count), dtype=np.int64)
        self._ints: Array = np.empty((3, count), dtype=np.int32)
        self._offsets: Array = np.empty((6, count + 1), dtype=np.int32)
        self._has: Array = np.empty((2, count), dtype=np.bool_)
        self._property_offsets: Array = np.empty((2, properties_max + 1), dtype=np.int32)
        self._offsets[:, 0] = self._property_offsets[:, 0] = 0
        self._fill()

    def _fill(self) -> None:
        pairs: Array = np.empty((places.PAIRS_TABLE // 2, 4), dtype=np.int64)
        table = np.zeros((2, places.PAIRS_TABLE), dtype=np.int32)
        columns = self._state, self._longs, self._ints, self._offsets, self._has
        *of_rows, names, values = self._texts
        seen = 0
        for each in self._pulls:
            seen |= self._functions.fill_batch(
                *(each.body, each.numbers, *columns, self._property_offsets),
                *(*of_rows, pairs, table, names, values),
            )
        self._is_ascii = seen < NOT_ASCII

    def topics(self) -> pa.Array:
        """Return the topics, without the namespace."""
        return self._of_queues(lambda rows: without_namespace(self._namespace, rows.queue.topic))

    def brokers(self) -> pa.Array:
        """Return the names of the brokers."""
        return self._of_queues(lambda rows: rows.queue.broker_name)

    def _of_queues(self, text_of: Any) -> pa.Array:
        runs = groupby(self._pulls, key=text_of)
        return pa.concat_arrays([pa.repeat(text, sum(map(len, run))) for text, run in runs])

    def longs(self, column: int) -> pa.Array:
        """Return a column of 64-bit numbers."""
        return pa.array(self._longs[column])

    def ints(self, column: int) -> pa.Array:
        """Return a column of 32-bit numbers."""
        return pa.array(self._ints[column])

    def times(self, column: int) -> pa.Array:
        """Return a column of milliseconds as times."""
        data = pa.py_buffer(self._longs[column])
        kind = pa.timestamp("ms", tz="UTC")
        return pa.Array.from_buffers(kind, self._longs.shape[1], [None, data])

    def text(self, column: int, has: int | None = None) -> pa.Array:
        """Return a column of texts. has: which rows have one; None if all have."""
        valid = None if has is None else self._has[has]
        return self._checked(self._array_of(column, self._offsets[column], valid))

    def _array_of(self, column: int, offsets: Array, valid: Array | None = None) -> pa.Array:
        end = self._state[2 + column]
        data = self._texts[column][:end]
        # What is far longer than its texts is not kept.
        data = data if 2 * end > len(self._texts[column]) else data.copy()
        kind = pa.binary() if column == BODIES else pa.string()
        return array_of(kind, offsets, data, valid)

    def _checked(self, array: pa.Array) -> pa.Array:
        """Return texts. Raises: LeftToMessages if they are not UTF-8."""
        if not self._is_ascii:
            try:
                array.validate(full=True)
            except pa.ArrowInvalid:
                raise LeftToMessages from None
        return array

    def properties(self, kind: pa.DataType) -> pa.Array:
        """Return the maps of properties."""
        ends = self._offsets[PROPERTIES]
        offsets = self._property_offsets[:, : ends[-1] + 1]
        names, values = (
            self._checked(self._array_of(column, offsets[column - NAMES]))
            for column in (NAMES, VALUES)
        )
        return pa.MapArray.from_arrays(pa.array(ends), names, values, type=kind)

    def bodies(self) -> pa.Array:
        """Return the bodies, inflated. Raises: LeftToMessages."""
        bodies = self._array_of(BODIES, self._offsets[BODIES])
        if not any(each.has_compressed for each in self._pulls):
            return bodies
        found: list[bytes] = bodies.to_pylist()
        first = 0
        for each in self._pulls:
            compressed = np.flatnonzero(each.numbers[:, layout.SYS_FLAG] & MESSAGE_COMPRESSED)
            spans: Array = np.empty((len(compressed), places.FIELDS), dtype=np.int64)
            self._functions.read_fields(each.body, each.numbers, compressed, spans, True)
            ranges = spans[:, [places.BODY_BEGIN, places.BODY_END]].tolist()
            for row, (begin, end) in zip(compressed.tolist(), ranges, strict=True):
                found[first + row] = _inflate(bytes(each.body[begin:end]))
            first += len(each)
        return pa.array(found, pa.binary())


def _inflate(body: bytes) -> bytes:
    try:
        return bytes(inflate(body, MESSAGE_COMPRESSED))
    except (RemoteProtocolError, ModuleNotFoundError):
        raise LeftToMessages from None


def to_batch(
    functions: BatchFunctions, pulls: Sequence[PulledRows], namespace: str, schema: pa.Schema
) -> pa.RecordBatch:
    """Return the rows of pulls as one batch. Raises: LeftToMessages."""
    rows = RowColumns(functions, pulls, namespace)
    arrays = {
        "topic": rows.topics(),
        "brokerName": rows.brokers(),
        "queueId": rows.ints(0),
        "queueOffset": rows.longs(0),
        "msgId": rows.text(IDS),
        "offsetMsgId": rows.text(OFFSET_IDS),
        "tags": rows.text(TAGS, has=0),
        "keys": rows.text(KEYS, has=1),
        "flag": rows.ints(1),
        "body": rows.bodies(),
        "properties": rows.properties(schema.field("properties").type),
        "bornTimestamp": rows.times(1),
        "storeTimestamp": rows.times(2),
        "reconsumeTimes": rows.ints(2),
    }
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)
