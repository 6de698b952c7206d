"""Stretches read ahead hold what reading in turn gives, and nothing of what was given up."""

import pytest

from tests.dispatchers.workers import LaterWorker
from tests.fakes.records import LogBytes
from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers.read_ahead import ReadAhead
from wakelog.storage.columns.scan_columns import Columns

SEGMENT_BYTES = 1 << 14
BUFFER_BYTES = 1 << 10


class Log:
    """The bytes of one segment; a read of `broken_at` fails."""

    def __init__(self, log: LogBytes) -> None:
        self._data = log.data
        self.broken_at = -1
        self.reads: list[int] = []

    def segment_end(self, physical_offset: int) -> int:
        return SEGMENT_BYTES

    def read_span_into(self, buffer: bytearray | memoryview, physical_offset: int) -> int:
        self.reads.append(physical_offset)
        if physical_offset == self.broken_at:
            raise OSError(5, "Input/output error")
        found = self._data[physical_offset : physical_offset + len(buffer)]
        buffer[: len(found)] = found
        return len(found)


@pytest.fixture
def log() -> LogBytes:
    log = LogBytes(SEGMENT_BYTES)
    for i in range(60):
        log.add(body=b"x" * i)
    return log


def reader(log: Log, functions: ScanFunctions, worker: LaterWorker | None) -> ReadAhead:
    return ReadAhead(
        log, lambda: Columns(functions, buffer_bytes=BUFFER_BYTES, records_max=64), worker
    )


def offsets(ahead: ReadAhead, end: int) -> list[int]:
    found: list[int] = []
    begin = 0
    while begin < end:
        filled = ahead.fill(begin, end)
        assert filled.scan is not None and filled.begin == begin
        found += [request.physical_offset for request in filled.columns.requests()]
        begin += filled.scan.next_position
    return found


def test_the_same_records_with_a_worker_and_without(log: LogBytes, compiled: ScanFunctions) -> None:
    worker = LaterWorker()
    assert offsets(reader(Log(log), compiled, None), log.end) == log.offsets
    assert offsets(reader(Log(log), compiled, worker), log.end) == log.offsets
    assert worker.submitted_count > 5


def test_nothing_is_read_ahead_that_the_limit_cuts(log: LogBytes, compiled: ScanFunctions) -> None:
    worker = LaterWorker()
    reader(Log(log), compiled, worker).fill(0, 2 * BUFFER_BYTES - 200)
    assert worker.submitted_count == 0


def test_nothing_is_read_ahead_behind_damage(log: LogBytes, compiled: ScanFunctions) -> None:
    worker = LaterWorker()
    log.damage(log.offsets[3] + 4, b"\0")
    reader(Log(log), compiled, worker).fill(0, log.end)
    assert worker.submitted_count == 0


def test_an_unexpected_place_is_read_again(log: LogBytes, compiled: ScanFunctions) -> None:
    source = Log(log)
    ahead = reader(source, compiled, LaterWorker())
    ahead.fill(0, log.end)
    filled = ahead.fill(log.offsets[1], log.end)
    assert filled.columns.request(0).physical_offset == log.offsets[1]
    assert source.reads[-1] == log.offsets[1]


def test_a_failed_read_is_raised_where_it_is_wanted_and_only_there(
    log: LogBytes, compiled: ScanFunctions
) -> None:
    source = Log(log)
    ahead = reader(source, compiled, LaterWorker())
    first = ahead.fill(0, log.end)
    assert first.scan is not None
    source.broken_at = first.scan.next_position
    with pytest.raises(OSError, match="Input/output"):
        ahead.fill(source.broken_at, log.end)
    ahead.fill(0, log.end)
    ahead.cancel()
    assert ahead.fill(log.offsets[1], log.end).columns.count > 0
