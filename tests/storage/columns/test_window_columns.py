"""Columns filled window by window hold what columns of the same bytes at once hold."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.records import LogBytes, properties
from tests.storage.columns.test_scan_columns import (
    BUFFER_BYTES,
    DELAYS_MS,
    damaged_bytes,
    damages,
    records,
)
from wakelog.compiled.columns import ScanFunctions
from wakelog.compiled.layout import KEY_HASH, KEY_RECORD, PHYSICAL_OFFSET
from wakelog.protocol.record import TOPIC_BYTES_MAX
from wakelog.storage.columns.scan_columns import SCAN_BUFFER_BYTES, Columns, ColumnScan
from wakelog.storage.columns.window_columns import WindowColumns
from wakelog.storage.log.record_check import CheckKind


def windows(functions: ScanFunctions, **values: Any) -> WindowColumns:
    sizes = {"window_bytes": 1 << 10, "records_max": 64, "check_bodies": True}
    return WindowColumns(functions, DELAYS_MS, **sizes | values)


def scan_of(
    columns: WindowColumns, data: bytes, begin: int = 0, segment_end: int = BUFFER_BYTES
) -> ColumnScan | None:
    def read(buffer: memoryview, physical_offset: int) -> int:
        found = data[physical_offset : physical_offset + len(buffer)]
        buffer[: len(found)] = found
        return len(found)

    return columns.scan_stretch(read, begin=begin, end=len(data), segment_end=segment_end)


def at_once(functions: ScanFunctions, data: bytes) -> tuple[Columns, ColumnScan]:
    columns = Columns(functions, DELAYS_MS, buffer_bytes=BUFFER_BYTES, records_max=64)
    columns.buffer[: len(data)] = data
    scan = columns.scan(begin=0, end=len(data), physical_offset=0, segment_end=BUFFER_BYTES)
    return columns, scan


def keys_of(columns: Columns) -> list[Any]:
    found: list[Any] = []
    for begin, end, request in columns.key_runs():
        rows = columns.keys[KEY_RECORD, begin:end]
        found += zip(
            columns.numbers[rows, PHYSICAL_OFFSET].tolist(),
            columns.keys[KEY_HASH, begin:end].tolist(),
            strict=True,
        )
        found.append(request)
    return found


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(records, max_size=30), damage=damages, cut=st.integers(0, 200))
def test_agrees_with_columns_of_all_bytes(
    functions: ScanFunctions, found: list[dict[str, Any]], damage: list[tuple[int, bytes]], cut: int
) -> None:
    data = damaged_bytes(found, damage, cut)
    whole, expected = at_once(functions, data)
    columns = windows(functions)
    scan = scan_of(columns, data)

    assert scan == (expected if data else ColumnScan(0, None))
    assert columns.groups() == whole.groups()
    entries_end = 20 * max((group.end for group in whole.groups()), default=0)
    assert columns.entries.tobytes()[:entries_end] == whole.entries.tobytes()[:entries_end]
    assert columns.refined == whole.refined
    assert [columns.request(row) for row in columns.refined] == [
        whole.request(row) for row in whole.refined
    ]
    assert keys_of(columns) == keys_of(whole)
    assert columns.damaged_bodies() == whole.damaged_bodies()


def log_of(count: int, **values: Any) -> LogBytes:
    log = LogBytes(BUFFER_BYTES)
    for i in range(count):
        log.add(properties(KEYS=f"k{i}"), topic=f"T{i}", **values)
    return log


@pytest.mark.parametrize("sizes", [{"records_max": 3}, {"names_bytes": TOPIC_BYTES_MAX + 4}])
def test_full_columns_end_a_stretch_without_a_reason(
    functions: ScanFunctions, sizes: dict[str, int]
) -> None:
    log = log_of(8)
    columns = windows(functions, **sizes)
    found: list[list[tuple[str, int]]] = []
    begin = 0
    while begin < log.end:
        scan = scan_of(columns, bytes(log.data), begin)
        assert scan is not None and scan.stopped_by is None
        found.append([(group.topic, group.physical_offset) for group in columns.groups()])
        begin += scan.next_position
    expected = [(f"T{i}", place) for i, place in enumerate(log.offsets)]
    assert found == [expected[:3], expected[3:6], expected[6:]]


def test_a_record_longer_than_the_window_makes_it_grow(functions: ScanFunctions) -> None:
    log = LogBytes(BUFFER_BYTES)
    log.add(body=b"x" * 10)
    log.add(body=b"y" * 5000)
    log.add(body=b"z" * 10)
    columns = windows(functions)
    assert scan_of(columns, bytes(log.data)) == (log.end, None)
    assert columns.count == 3 and len(columns.buffer) == SCAN_BUFFER_BYTES


def test_a_record_longer_than_any_window_ends_the_stretch(functions: ScanFunctions) -> None:
    log = log_of(1)
    size = SCAN_BUFFER_BYTES + 1
    data = bytes(log.data) + size.to_bytes(4, "big") + log.data[4:8] + bytes(2000)
    columns = windows(functions)
    scan = scan_of(columns, data, segment_end=1 << 30)
    assert scan is not None and scan.next_position == log.end
    assert scan.stopped_by is not None and scan.stopped_by.kind is CheckKind.INCOMPLETE
    assert columns.count == 1


def test_where_nothing_can_be_read(functions: ScanFunctions) -> None:
    log = log_of(8)
    columns = windows(functions, window_bytes=2 * log.offsets[1] + 10)
    nothing = columns.scan_stretch(lambda buffer, at: 0, begin=0, end=8, segment_end=BUFFER_BYTES)
    assert nothing is None and columns.count == 0

    def read_once(buffer: memoryview, physical_offset: int) -> int:
        if physical_offset:
            return 0  # the segment was removed meanwhile
        buffer[:] = log.data[: len(buffer)]
        return len(buffer)

    scan = columns.scan_stretch(read_once, begin=0, end=log.end, segment_end=BUFFER_BYTES)
    assert scan == (log.offsets[2], None)
    assert columns.count == 2
