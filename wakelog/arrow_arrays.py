"""Arrow arrays from columns of records: compiled loops fill Arrow's buffers.

Spark's rows and a consumer's batches are made of these. `numbers` and `fields` are the columns of
`compiled/layout.py` and `compiled/fields.py`; positions in them are of `buffer`. Where an array has
text, the or of all its bytes is returned as well: below NOT_ASCII it is UTF-8 for certain.

Invariants: the arrays own their memory; `buffer` may change afterwards.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from wakelog.compiled import fields as places
from wakelog.compiled import layout
from wakelog.compiled.columns import Buffer, RowFunctions

Array = np.ndarray[Any, Any]

NOT_ASCII: Final = 0x80
_ID_BYTES_MAX: Final = 56
"""An id of a host with a v6 address, in hexadecimal."""


def array_of(
    kind: pa.DataType, offsets: Array, data: Array, valid: Array | None = None
) -> pa.Array:
    """Return an array of texts or bytes. valid: bool[rows], None if no row is null."""
    validity = None
    if valid is not None and not valid.all():
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def spans_of(
    functions: RowFunctions,
    buffer: Buffer,
    begins: Array,
    ends: Array,
    kind: pa.DataType,
    valid: Array | None = None,
) -> tuple[pa.Array, int]:
    """Return spans of the buffer as an array, and the or of all their bytes."""
    begins, ends = np.ascontiguousarray(begins), np.ascontiguousarray(ends)
    offsets: Array = np.empty(len(begins) + 1, dtype=np.int32)
    out: Array = np.empty(int((ends - begins).sum()), dtype=np.uint8)
    seen = functions.gather(buffer, begins, ends, offsets, out)
    return array_of(kind, offsets, out, valid), seen


def ids_of(
    functions: RowFunctions, buffer: Buffer, fields: Array, is_v6: Array, *, use_uniq: bool
) -> tuple[pa.Array, int]:
    """Return the ids of the broker, or of the producer where there is one, and the or of bytes.

    is_v6: bool[rows], whether the broker's host has a v6 address.
    """
    offsets: Array = np.empty(len(fields) + 1, dtype=np.int32)
    room = _ID_BYTES_MAX * len(fields)
    if use_uniq:
        room += int((fields[:, places.UNIQ_END] - fields[:, places.UNIQ_BEGIN]).sum())
    out: Array = np.empty(room, dtype=np.uint8)
    seen = functions.format_ids(buffer, fields, is_v6, use_uniq, offsets, out)
    return array_of(pa.string(), offsets, out[: offsets[-1]]), seen


def pairs_of(functions: RowFunctions, buffer: Buffer, numbers: Array) -> tuple[Array, Array]:
    """Return where each record's properties begin among all, int32[rows + 1], and all of them.

    Of a property there are the begin and the end of its name, and those of its value.
    """
    pairs_max = int((numbers[:, layout.PROPERTIES_BYTES] // places.PAIR_BYTES_MIN + 1).sum())
    ends: Array = np.empty(len(numbers) + 1, dtype=np.int32)
    pairs: Array = np.empty((pairs_max, 4), dtype=np.int64)
    table = np.zeros((2, places.PAIRS_TABLE), dtype=np.int32)
    rows = np.arange(len(numbers))
    count = functions.find_pairs(buffer, numbers, rows, ends, pairs, table)
    return ends, pairs[:count]
