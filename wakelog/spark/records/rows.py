"""Makes Arrow record batches, the rows that a query sees, from the columns of a walk.

One `Rows` object belongs to one task. It selects records (`wanted.py`) and fills Arrow's buffers
with compiled loops (`functions.py`). Python handles single messages in three cases only: a
compressed body, a SQL92 filter, and text that is not UTF-8. Such text gets replacement characters,
as in Java.

Invariants:
- A batch has exactly the given schema, at most `batch_rows` rows, and about `batch_bytes`.
- A record that cannot be returned (its body has another CRC, or does not inflate) becomes damage,
  so that nothing is left out silently.

Source: org.apache.rocketmq.common.message.MessageDecoder#decode,
org.apache.rocketmq.client.impl.consumer.PullAPIWrapper (4.9.3) for `msgId` and tags,
java.net.Inet6Address#getHostAddress (Java 17) for hosts.
"""

import json
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wakelog.arrow_arrays import NOT_ASCII, ids_of, pairs_of, spans_of
from wakelog.compiled import fields as places
from wakelog.compiled import layout
from wakelog.protocol.compression import inflate
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.java import LONG_MAX
from wakelog.protocol.properties import decode_properties
from wakelog.protocol.record import HEAD_BYTES_MAX, HOST_BYTES_V4, V6_EXTRA_BYTES
from wakelog.protocol.sys_flag import (
    MESSAGE_BORN_HOST_V6,
    MESSAGE_COMPRESSED,
    MESSAGE_STORE_HOST_V6,
)
from wakelog.spark.bounds import Selection
from wakelog.spark.records.column_walk import Array, Damage, RowOptions, Scanned
from wakelog.spark.records.functions import FUNCTIONS
from wakelog.spark.records.wanted import Wanted

LOG_APPEND_TIME: Final = pa.scalar(1, pa.int32())
"""Kafka's timestampType for the broker's time."""

HOSTS_KNOWN_MAX: Final = 1 << 14
"""Clients of a large cluster; each costs about 200 bytes."""

_MAPPED: Final = bytes(10) + b"\xff\xff"
"""In front of a v4 address in v6 form, which Java reads as v4."""
_TIME_MS_MAX: Final = LONG_MAX // 1000


def needs_bodies(schema: pa.Schema, options: RowOptions) -> bool:
    """Return whether rows of these columns need the bodies of messages."""
    return options.verify_crc or not _OF_BODIES.isdisjoint(schema.names)


class _Slice(NamedTuple):
    """Records of one batch: rows of the walk's numbers, and what `read_fields` fills."""

    numbers: Array
    fields: Array
    bodies: dict[int, bytes]
    """Inflated bodies, by position in the slice."""


class Rows:
    """See the module. One owner, one thread."""

    def __init__(
        self, walk: Scanned, schema: pa.Schema, selection: Selection, options: RowOptions
    ) -> None:
        """Keep the walk, and what the query selects."""
        self._walk = walk
        self._schema = schema
        self._wanted = Wanted(selection, options.broker)
        self._options = options
        self._tags = pa.array([tag.encode() for tag in selection.tags], pa.binary())
        self._passes = _matcher(selection.sql)
        self._damage: list[Damage] = []
        self._fields_room: Array = np.zeros((0, places.FIELDS), dtype=np.int64)
        # The pairs of the current slice, which the map and the headers share.
        self._pairs: tuple[Array, Array] | None = None
        wants = {field.name for field in schema}
        self._inflates = options.decompress and not _OF_BODIES.isdisjoint(wants)
        self._needs_fields = len(self._tags) > 0 or options.verify_crc or not wants <= _OF_NUMBERS
        self._makers = [self._maker(field) for field in schema]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the walk's last step; `taken_damage` has what cannot be returned."""
        rows = self._wanted.rows(self._walk)
        for begin in range(0, len(rows), self._options.batch_rows):
            part = rows[begin : begin + self._options.batch_rows]
            part, fields = self._kept(part, self._fields(part))
            yield from self._cut(_taken(self._walk.numbers, part), fields)

    def _fields(self, rows: Array) -> Array:
        """Return the fields of these records; they are read only if a column needs them."""
        if not self._needs_fields:
            return np.broadcast_to(np.int64(0), (len(rows), places.FIELDS))
        # All slices share one array, because each becomes a batch before the next one.
        if len(self._fields_room) < len(rows):
            self._fields_room = np.zeros((len(rows), places.FIELDS), dtype=np.int64)
        fields = self._fields_room[: len(rows)]
        walk = self._walk
        FUNCTIONS.read_fields(walk.buffer, walk.numbers, rows, fields, walk.has_bodies)
        return fields

    def taken_damage(self) -> list[Damage]:
        """Return the damage since the last call."""
        taken, self._damage = self._damage, []
        return taken

    def _kept(self, rows: Array, fields: Array) -> tuple[Array, Array]:
        """Leave out what filters reject, and damaged bodies, which become damage."""
        keep = np.ones(len(rows), dtype=np.bool_)
        if len(self._tags):
            begins, ends = fields[:, places.TAGS_BEGIN], fields[:, places.TAGS_END]
            tags, _ = self._spans(begins, ends, pa.binary())
            keep = pc.is_in(tags, self._tags).to_numpy(zero_copy_only=False)
        if self._passes is not None:
            keep[keep] = [self._passes(self._properties(row)) for row in rows[keep].tolist()]
        if self._options.verify_crc:
            sound = np.ones(len(rows), dtype=np.bool_)
            damaged: Array = np.empty(len(rows), dtype=np.int32)
            numbers = _taken(self._walk.numbers, rows)
            count = FUNCTIONS.check_bodies(self._walk.buffer, numbers, 0, len(rows), damaged)
            sound[damaged[:count]] = False
            for row in numbers[keep & ~sound]:
                self._note(row, "the body's CRC differs")
            keep &= sound
        return (rows, fields) if keep.all() else (rows[keep], fields[keep])

    def _properties(self, row: int) -> dict[str, str]:
        begin = int(self._walk.numbers[row, layout.PROPERTIES_BEGIN])
        end = begin + int(self._walk.numbers[row, layout.PROPERTIES_BYTES])
        return decode_properties(self._walk.buffer[begin:end].decode("utf-8", "replace"))

    def _note(self, numbers: Array, reason: str) -> None:
        begin = int(numbers[layout.PHYSICAL_OFFSET])
        self._damage.append(Damage(begin, begin + int(numbers[layout.SIZE]), reason))

    def _cut(self, numbers: Array, fields: Array) -> Iterator[pa.RecordBatch]:
        """Yield batches of these records, none much larger than `batch_bytes`."""
        ends = np.cumsum(self._sizes(numbers))
        begin = 0
        while begin < len(numbers):
            before = ends[begin - 1] if begin else 0
            fitting = int(np.searchsorted(ends, before + self._options.batch_bytes, "right"))
            end = max(fitting, begin + 1)
            yield from self._inflated(numbers[begin:end], fields[begin:end])
            begin = end

    def _sizes(self, numbers: Array) -> Array:
        """Return for each record how many bytes it may add to a batch."""
        if self._walk.has_bodies:
            return numbers[:, layout.SIZE]
        texts: Array = numbers[:, layout.TOPIC_BYTES] + numbers[:, layout.PROPERTIES_BYTES]
        return texts + HEAD_BYTES_MAX

    def _inflated(self, numbers: Array, fields: Array) -> Iterator[pa.RecordBatch]:
        """Yield one batch of these records, or more if their inflated bodies fill more."""
        compressed = numbers[:, layout.SYS_FLAG] & MESSAGE_COMPRESSED
        bodies: dict[int, bytes | None] = {}
        begin, total_bytes = 0, 0
        for i in np.flatnonzero(compressed).tolist() if self._inflates else ():
            body = _inflate(self._walk.buffer, fields[i])
            total_bytes += len(body or b"")
            if total_bytes > self._options.batch_bytes and bodies:
                yield from self._batch(numbers[begin:i], fields[begin:i], bodies)
                begin, total_bytes, bodies = i, len(body or b""), {}
            bodies[i - begin] = body
        yield from self._batch(numbers[begin:], fields[begin:], bodies)

    def _batch(
        self, numbers: Array, fields: Array, bodies: dict[int, bytes | None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batch of these records without those whose body is None, if any is left."""
        inflated = {i: body for i, body in bodies.items() if body is not None}
        if len(inflated) < len(bodies):
            for i in bodies.keys() - inflated.keys():
                self._note(numbers[i], "the compressed body does not inflate")
            kept = [i for i in range(len(numbers)) if i in inflated or i not in bodies]
            numbers, fields = numbers[kept], fields[kept]
            inflated = {k: inflated[i] for k, i in enumerate(kept) if i in inflated}
        if len(numbers):
            self._pairs = None
            part = _Slice(numbers, fields, inflated)
            arrays = [make(part) for make in self._makers]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _maker(self, field: pa.Field) -> Callable[[_Slice], pa.Array]:
        """Return the function that makes a column's array."""
        if field.name in _NUMBERS:
            place, kind = _NUMBERS[field.name]
            return lambda part: pa.array(part.numbers[:, place].astype(kind))
        if field.name in _FIELDS:
            place = _FIELDS[field.name]
            return lambda part: pa.array(part.fields[:, place].astype(np.int32))
        makers: dict[str, Callable[[_Slice], pa.Array]] = {
            "topic": lambda part: self._text(
                part.numbers[:, layout.TOPIC_BEGIN],
                part.numbers[:, layout.TOPIC_BEGIN] + part.numbers[:, layout.TOPIC_BYTES],
            ),
            "brokerName": lambda part: pa.repeat(self._options.broker, len(part.numbers)),
            "msgId": lambda part: self._ids(part, use_uniq=True),
            "offsetMsgId": lambda part: self._ids(part, use_uniq=False),
            "tags": lambda part: self._property(part, places.TAGS_BEGIN, places.TAGS_END),
            "keys": lambda part: self._property(part, places.KEYS_BEGIN, places.KEYS_END),
            "key": lambda part: self._property(
                part, places.KEYS_BEGIN, places.KEYS_END, pa.binary()
            ),
            "body": self._bodies,
            "value": self._bodies,
            "properties": (
                self._json
                if pa.types.is_string(field.type)
                else lambda part: self._map(part, field)
            ),
            "headers": lambda part: self._headers(part, field),
            "bornTimestamp": lambda part: _times(part.fields[:, places.BORN_TIMESTAMP]),
            "storeTimestamp": lambda part: _times(part.numbers[:, layout.STORE_TIMESTAMP]),
            "timestamp": lambda part: _times(part.numbers[:, layout.STORE_TIMESTAMP]),
            "timestampType": lambda part: pa.repeat(LOG_APPEND_TIME, len(part.numbers)),
            "bornHost": lambda part: self._hosts(part, places.BORN_HOST, MESSAGE_BORN_HOST_V6),
            "storeHost": lambda part: self._hosts(part, places.STORE_HOST, MESSAGE_STORE_HOST_V6),
        }
        return makers[field.name]

    def _text(self, begins: Array, ends: Array, *, valid: Array | None = None) -> pa.Array:
        return _readable(*self._spans(begins, ends, pa.string(), valid))

    def _spans(
        self, begins: Array, ends: Array, kind: pa.DataType, valid: Array | None = None
    ) -> tuple[pa.Array, int]:
        """Make an array of spans of the buffer; also return the or of all their bytes."""
        return spans_of(FUNCTIONS, self._walk.buffer, begins, ends, kind, valid)

    def _property(
        self, part: _Slice, begin: int, end: int, kind: pa.DataType | None = None
    ) -> pa.Array:
        """Make an array of one property, null where a record has none: no value is empty."""
        begins, ends = part.fields[:, begin], part.fields[:, end]
        if kind is None:
            return self._text(begins, ends, valid=ends > begins)
        return self._spans(begins, ends, kind, ends > begins)[0]

    def _bodies(self, part: _Slice) -> pa.Array:
        begins, ends = part.fields[:, places.BODY_BEGIN], part.fields[:, places.BODY_END]
        if not part.bodies:
            return self._spans(begins, ends, pa.binary())[0]
        view = memoryview(self._walk.buffer)
        spans = enumerate(zip(begins.tolist(), ends.tolist(), strict=True))
        return pa.array(
            [part.bodies[i] if i in part.bodies else bytes(view[a:b]) for i, (a, b) in spans],
            type=pa.binary(),
        )

    def _hosts(self, part: _Slice, place: int, flag: int) -> pa.Array:
        """Make texts of hosts; messages of one host share its text."""
        begins = part.fields[:, place]
        is_v6 = part.numbers[:, layout.SYS_FLAG] & flag != 0
        ends = begins + np.where(is_v6, HOST_BYTES_V4 + V6_EXTRA_BYTES, HOST_BYTES_V4)
        found = self._spans(begins, ends, pa.binary())[0].dictionary_encode()
        texts = [java_host_text(host) for host in found.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(found.indices)

    def _ids(self, part: _Slice, *, use_uniq: bool) -> pa.Array:
        is_v6 = part.numbers[:, layout.SYS_FLAG] & MESSAGE_STORE_HOST_V6 != 0
        buffer, fields = self._walk.buffer, part.fields
        return _readable(*ids_of(FUNCTIONS, buffer, fields, is_v6, use_uniq=use_uniq))

    def _found_pairs(self, part: _Slice) -> tuple[Array, Array]:
        """Return where each record's properties begin among all, and the places of all."""
        if self._pairs is None:
            self._pairs = pairs_of(FUNCTIONS, self._walk.buffer, part.numbers)
        return self._pairs

    def _map(self, part: _Slice, field: pa.Field) -> pa.Array:
        ends, pairs = self._found_pairs(part)
        names = self._spans(pairs[:, 0], pairs[:, 1], pa.string())[0]
        values = self._spans(pairs[:, 2], pairs[:, 3], pa.string())[0]
        try:
            names.validate(full=True)
            values.validate(full=True)
        except pa.ArrowInvalid:
            # Different names can become equal by replacement characters: make these maps again.
            return pa.array([list(found.items()) for found in self._decoded(part)], field.type)
        return pa.MapArray.from_arrays(pa.array(ends), names, values, type=field.type)

    def _headers(self, part: _Slice, field: pa.Field) -> pa.Array:
        ends, pairs = self._found_pairs(part)
        names = self._text(pairs[:, 0], pairs[:, 1])
        values = self._spans(pairs[:, 2], pairs[:, 3], pa.binary())[0]
        inner = pa.StructArray.from_arrays([names, values], fields=list(field.type.value_type))
        return pa.ListArray.from_arrays(pa.array(ends), inner, type=field.type)

    def _json(self, part: _Slice) -> pa.Array:
        texts = [json.dumps(found, ensure_ascii=False) for found in self._decoded(part)]
        return pa.array(texts, pa.string())

    def _decoded(self, part: _Slice) -> Iterator[dict[str, str]]:
        """Yield each record's properties, read by Python."""
        ends, pairs = self._found_pairs(part)
        view = memoryview(self._walk.buffer)
        for begin, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            yield {
                str(view[a:b], "utf-8", "replace"): str(view[c:d], "utf-8", "replace")
                for a, b, c, d in pairs[begin:end].tolist()
            }


_OF_BODIES: Final = frozenset(("body", "value"))
_NUMBERS: Final[dict[str, tuple[int, Any]]] = {
    "queueId": (layout.QUEUE_ID, np.int32),
    "partition": (layout.QUEUE_ID, np.int32),
    "queueOffset": (layout.QUEUE_OFFSET, np.int64),
    "offset": (layout.QUEUE_OFFSET, np.int64),
    "commitLogOffset": (layout.PHYSICAL_OFFSET, np.int64),
    "storeSize": (layout.SIZE, np.int32),
    "sysFlag": (layout.SYS_FLAG, np.int32),
    "preparedTransactionOffset": (layout.PREPARED_OFFSET, np.int64),
}
_FIELDS: Final = {
    "flag": places.FLAG,
    "bodyCRC": places.BODY_CRC,
    "reconsumeTimes": places.RECONSUME_TIMES,
}
_OF_NUMBERS: Final = frozenset(
    (*_NUMBERS, "topic", "brokerName", "storeTimestamp", "timestamp", "timestampType")
)
"""Columns that the walk's numbers are enough for: `read_fields` is left out then."""


def _matcher(sql: str) -> Callable[[dict[str, str]], bool] | None:
    """Return a function that applies an expression to properties, None for no expression."""
    if not sql:
        return None
    from wakelog.filter.sql92 import compile_filter

    return compile_filter(sql).matches


def _inflate(buffer: bytearray, fields: Array) -> bytes | None:
    """Return a compressed body as its producer sent it, None if it is none, or too much."""
    begin, end = int(fields[places.BODY_BEGIN]), int(fields[places.BODY_END])
    try:
        return inflate(memoryview(buffer)[begin:end], MESSAGE_COMPRESSED)
    except RemoteProtocolError:
        return None


def _taken(columns: Array, rows: Array) -> Array:
    """Return these rows, without copying them where they follow one another."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return columns[rows[0] : rows[-1] + 1]
    return columns[rows]


@lru_cache(maxsize=HOSTS_KNOWN_MAX)
def java_host_text(host: bytes) -> str:
    """Write the address and port of a record as `1.2.3.4:5` or `[0:0:0:0:0:0:0:1]:5`."""
    address, port = host[:-4].removeprefix(_MAPPED), int.from_bytes(host[-4:], signed=True)
    if len(address) == 4:
        return "{}.{}.{}.{}:{}".format(*address, port)
    groups = [f"{group:x}" for (group,) in struct.iter_unpack(">H", address)]
    return f"[{':'.join(groups)}]:{port}"


def _readable(array: pa.Array, seen: int) -> pa.Array:
    """Return text as it is if it is UTF-8, else with replacement characters.

    seen: the or of all its bytes.
    """
    if not seen & NOT_ASCII:
        return array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        texts = array.cast(pa.binary(), safe=False).to_pylist()
        return pa.array(
            [None if x is None else x.decode("utf-8", "replace") for x in texts], pa.string()
        )
    return array


def _times(values_ms: Array) -> pa.Array:
    """Make times in microseconds; what a Java long of microseconds does not hold is cut."""
    micros = np.clip(values_ms, -_TIME_MS_MAX, _TIME_MS_MAX) * 1000
    return pa.array(micros).cast(pa.timestamp("us", tz="UTC"))
