"""CRCs of compiled code: those of zlib, on any bytes, wherever they begin."""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.columns import scanned
from tests.fakes.records import LogBytes
from wakelog.storage.kernels.crc_kernel import crc_by_tables, crc_of
from wakelog.storage.kernels.kernels import Kernels
from wakelog.storage.log.record_check import CheckKind, check_record

BUFFER_BYTES = 1 << 13

Crc = Callable[[object, int, int], int]


@pytest.fixture(params=[crc_by_tables, crc_of], ids=["tables", "of this processor"])
def crc(request: pytest.FixtureRequest) -> Crc:
    found: Crc = request.param
    return found


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000])
@pytest.mark.parametrize("begin", [0, 1, 7])
def test_lengths_around_each_step(crc: Crc, begin: int, length: int) -> None:
    data = bytes(7 * i % 256 for i in range(begin + length))
    buffer = np.frombuffer(data, dtype=np.uint8)
    assert crc(buffer, begin, begin + length) == zlib.crc32(data[begin:])


@given(data=st.binary(max_size=400), begin=st.integers(0, 30))
def test_any_bytes(kernels: Kernels, data: bytes, begin: int) -> None:
    begin = min(begin, len(data))
    buffer = np.frombuffer(data, dtype=np.uint8)
    for way in (crc_by_tables, crc_of):
        assert way(buffer, begin, len(data)) == zlib.crc32(data[begin:])
    assert kernels.crc_of_all(buffer) == zlib.crc32(data)


hosts = st.sampled_from([("1.2.3.4", 1), ("::1", 1)])
bodies = st.fixed_dictionaries(
    {"body": st.binary(max_size=200), "born_host": hosts, "store_host": hosts}
)


@given(
    found=st.lists(bodies, max_size=12),
    damage=st.lists(st.tuples(st.integers(0, 1 << 12), st.binary(min_size=1, max_size=3))),
)
def test_bodies_are_judged_as_the_plain_way_does(
    kernels: Kernels, found: list[dict[str, Any]], damage: list[tuple[int, bytes]]
) -> None:
    log = LogBytes(segment_bytes=BUFFER_BYTES)
    for values in found:
        log.add(**values)
    for at, data in damage:
        if at + len(data) <= len(log.data):
            log.damage(at, data)
    columns = scanned(kernels, log)
    places = [request.physical_offset for request in columns.requests()]
    damaged = [request.physical_offset for request in columns.damaged_bodies()]
    assert damaged == [
        place
        for place in places
        if check_record(log.data, place, place, log.end, check_body=True).kind
        is not CheckKind.SOUND
    ]
