"""Arrow arrays from spans; the tests of Spark's rows and of batches compare all values."""

import numpy as np
import pyarrow as pa

from wakelog.arrow_arrays import NOT_ASCII, array_of, spans_of
from wakelog.spark.records.functions import FUNCTIONS


def test_spans_are_copied_and_a_row_may_be_null() -> None:
    buffer = bytearray("redgr\u00fcn".encode())
    begins, ends = np.array([0, 3, 3], np.int64), np.array([3, 3, len(buffer)], np.int64)
    array, seen = spans_of(FUNCTIONS, buffer, begins, ends, pa.string(), ends > begins)
    buffer[:] = bytes(len(buffer))
    assert array.to_pylist() == ["red", None, "gr\u00fcn"]
    assert seen & NOT_ASCII
    _, seen = spans_of(FUNCTIONS, bytearray(b"red"), begins[:1], ends[:1], pa.string())
    assert not seen & NOT_ASCII


def test_without_a_null_there_is_no_bitmap() -> None:
    offsets, data = np.array([0, 1, 1], np.int32), np.frombuffer(b"a", np.uint8)
    array = array_of(pa.binary(), offsets, data, np.array([True, True]))
    assert array.to_pylist() == [b"a", b""]
    assert array.buffers()[0] is None
