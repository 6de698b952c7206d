"""The compiled loops by themselves, where `test_rows.py` cannot see into them."""

import numpy as np

from wakelog.spark.records import row_kernel


def test_spans_are_gathered_one_behind_the_other() -> None:
    buffer = np.frombuffer("ab€cd".encode(), dtype=np.uint8)
    begins, ends = np.array([5, 0, 2, 1]), np.array([7, 2, 2, 3])
    offsets, out = np.zeros(5, dtype=np.int32), np.zeros(6, dtype=np.uint8)
    seen = row_kernel.gather(buffer, begins, ends, offsets, out)
    assert (out.tobytes(), offsets.tolist()) == (b"cdabb\xe2", [0, 2, 4, 4, 6])
    assert seen & 0x80
