"""The compiled loops by themselves, where `test_rows.py` cannot see into them."""

from __future__ import annotations

import numpy as np

from wakelog.spark.records import row_kernel


def test_spans_are_gathered_one_behind_the_other() -> None:
    buffer = np.frombuffer("ab€cd".encode(), dtype=np.uint8)
    begins, ends = np.array([5, 0, 2, 1]), np.array([7, 2, 2, 3])
    offsets, out = np.zeros(5, dtype=np.int32), np.zeros(6, dtype=np.uint8)
    seen = row_kernel.gather(buffer, begins, ends, offsets, out)
    assert (out.tobytes(), offsets.tolist()) == (b"cdabb\xe2", [0, 2, 4, 4, 6])
    assert seen & 0x80


def test_a_mapped_address_is_written_as_java_takes_it() -> None:
    address = bytes(10) + b"\xff\xff\x01\x02\x03\x04" + (80).to_bytes(4, "big")
    offsets, out = np.zeros(2, dtype=np.int32), np.zeros(56, dtype=np.uint8)
    buffer = np.frombuffer(address, dtype=np.uint8)
    row_kernel.format_hosts(buffer, np.array([0]), np.array([True]), offsets, out)
    assert out[: offsets[1]].tobytes() == b"1.2.3.4:80"


def test_a_host_has_room() -> None:
    assert len(f"[{':'.join(['ffff'] * 8)}]:{-(2**31)}") <= row_kernel.HOST_TEXT_MAX
