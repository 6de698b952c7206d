"""Stretches equal a read in turn, for any timing of workers and any bytes like a record."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.dispatchers.workers import LaterWorker, SlowWorker
from tests.fakes.records import LogBytes, record
from wakelog.audit.stretches import (
    _PIECE_BYTES,
    SEARCH_BYTES_MAX,
    Stretches,
    StretchReader,
    first_record,
)
from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers.read_ahead import Worker
from wakelog.storage.columns.window_columns import WindowColumns

SEGMENT_BYTES = 1 << 20
STRETCH_BYTES = 1 << 12


class Log:
    """The bytes of one segment; a read that reaches `broken_at` fails."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.broken_at = 1 << 62
        self.reads_count = 0
        self.min_offset = 0

    def refresh(self) -> bool:
        return False

    def segment_end(self, physical_offset: int) -> int:
        return SEGMENT_BYTES

    def skip_zeros(self, physical_offset: int) -> int:
        return physical_offset

    def read_span(self, physical_offset: int, length_max: int) -> bytes:
        return self._data[physical_offset : physical_offset + length_max]

    def read_span_into(self, buffer: bytearray | memoryview, physical_offset: int) -> int:
        self.reads_count += 1
        if physical_offset + len(buffer) > self.broken_at:
            raise OSError(5, "Input/output error")
        found = self.read_span(physical_offset, len(buffer))
        buffer[: len(found)] = found
        return len(found)


def stretches(
    log: Log, functions: ScanFunctions, worker: Worker, lanes_count: int = 4
) -> Stretches:
    columns = [
        WindowColumns(functions, window_bytes=1 << 10, records_max=256) for _ in range(lanes_count)
    ]
    lanes = [StretchReader(log, one) for one in columns]
    return Stretches(lanes, worker, stretch_bytes=STRETCH_BYTES)


def offsets(ahead: Stretches, begin: int, end: int) -> list[int]:
    """Return the places of all records, passing over a byte where there is none."""
    found: list[int] = []
    while begin < end:
        columns, filled_begin, _, scan = ahead.fill(begin, end)
        assert scan is not None and filled_begin == begin
        found += columns.numbers[: columns.count, 0].tolist()
        begin += scan.next_position or 1
    return found


def log_of(count: int, seed: int = 0) -> LogBytes:
    rng = random.Random(seed)
    log = LogBytes(SEGMENT_BYTES)
    for _ in range(count):
        log.add(body=bytes(rng.randrange(600)))
    return log


@pytest.mark.parametrize("lanes_count", [2, 3, 7])
def test_the_records_of_a_log_in_order(compiled: ScanFunctions, lanes_count: int) -> None:
    log = log_of(200)
    assert log.end > 10 * STRETCH_BYTES
    worker = LaterWorker()
    ahead = stretches(Log(bytes(log.data)), compiled, worker, lanes_count)
    assert offsets(ahead, 0, log.end) == log.offsets
    # Each stretch was read once: there was no false record.
    assert worker.submitted_count == -(-log.end // STRETCH_BYTES)


@pytest.mark.parametrize("lanes_count", [4, 7])
def test_instead_of_waiting_a_stretch_is_filled_here(
    compiled: ScanFunctions, lanes_count: int
) -> None:
    log = log_of(200)
    worker = SlowWorker()
    ahead = stretches(Log(bytes(log.data)), compiled, worker, lanes_count)
    assert offsets(ahead, 0, log.end) == log.offsets
    assert worker.submitted_count < -(-log.end // STRETCH_BYTES)


def test_with_threads(compiled: ScanFunctions) -> None:
    log = log_of(300)
    with ThreadPoolExecutor(3) as pool:
        ahead = stretches(Log(bytes(log.data)), compiled, pool)
        assert offsets(ahead, 0, log.end) == log.offsets
        assert offsets(ahead, log.offsets[100], log.end) == log.offsets[100:]
        ahead.cancel()


@pytest.mark.parametrize("make_worker", [LaterWorker, SlowWorker])
@pytest.mark.parametrize("seed", range(5))
def test_over_damage(
    compiled: ScanFunctions, seed: int, make_worker: Callable[[], LaterWorker]
) -> None:
    log = log_of(200, seed)
    rng = random.Random(seed)
    wrong = {rng.randrange(200) for _ in range(9)}
    for i in wrong:
        log.damage(log.offsets[i] + 4, b"\0")
    found = offsets(stretches(Log(bytes(log.data)), compiled, make_worker()), 0, log.end)
    assert found == [place for i, place in enumerate(log.offsets) if i not in wrong]


def test_a_body_that_holds_a_record_of_its_place_is_no_record(compiled: ScanFunctions) -> None:
    log = LogBytes(SEGMENT_BYTES)
    while log.end < STRETCH_BYTES - 200:
        log.add()
    # Its body begins after a head of 88 bytes, before the next stretch's nominal begin.
    padding = STRETCH_BYTES - log.end - 88 + 10
    log.add(body=bytes(padding) + record(STRETCH_BYTES + 10, body=b"inner"))
    # More than columns hold at once: the begin in the body is still ahead of the position.
    for _ in range(600):
        log.add()
    source = Log(bytes(log.data))
    assert first_record(source, STRETCH_BYTES, log.end) == STRETCH_BYTES + 10
    assert STRETCH_BYTES + 10 not in log.offsets
    assert offsets(stretches(source, compiled, LaterWorker()), 0, log.end) == log.offsets


def test_records_longer_than_stretches(compiled: ScanFunctions) -> None:
    log = LogBytes(SEGMENT_BYTES)
    for i in range(30):
        log.add(body=bytes(3 * STRETCH_BYTES if i % 3 == 0 else 50))
    ahead = stretches(Log(bytes(log.data)), compiled, LaterWorker())
    assert offsets(ahead, 0, log.end) == log.offsets


@pytest.mark.parametrize("make_worker", [LaterWorker, SlowWorker])
def test_a_failed_read_is_raised_where_it_is_wanted(
    compiled: ScanFunctions, make_worker: Callable[[], LaterWorker]
) -> None:
    log = log_of(200)
    source = Log(bytes(log.data))
    source.broken_at = 5 * STRETCH_BYTES
    ahead = stretches(source, compiled, make_worker())
    begin = 0
    with pytest.raises(OSError, match="Input/output"):
        while begin < log.end:
            scan = ahead.fill(begin, log.end).scan
            assert scan is not None
            begin += scan.next_position
    assert 3 * STRETCH_BYTES < begin <= 5 * STRETCH_BYTES
    source.broken_at = 1 << 62
    ahead.cancel()
    assert offsets(ahead, begin, log.end) == [place for place in log.offsets if place >= begin]


def test_what_is_on_its_way_is_waited_for_before_the_log_is_closed(compiled: ScanFunctions) -> None:
    log = log_of(200)
    source = Log(bytes(log.data))
    ahead = stretches(source, compiled, LaterWorker(), lanes_count=7)
    ahead.fill(0, log.end)
    reads_count = source.reads_count
    ahead.cancel()
    assert source.reads_count >= reads_count + 2
    reads_count = source.reads_count
    ahead.cancel()
    assert source.reads_count == reads_count


def test_nothing_is_there(compiled: ScanFunctions) -> None:
    ahead = stretches(Log(b""), compiled, LaterWorker())
    assert ahead.fill(0, 4096).scan is None
    ahead.cancel()


def test_a_record_is_found_wherever_what_is_read_at_once_ends() -> None:
    for place in range(_PIECE_BYTES - 60, _PIECE_BYTES + 4):
        data = bytes(place) + record(place)
        assert first_record(Log(data), 0, len(data)) == place


def test_the_search_for_a_record_is_bounded() -> None:
    data = bytes(SEARCH_BYTES_MAX + 20_000)
    near, far = 50_000, SEARCH_BYTES_MAX + 17_000
    for place in (near, far):
        made = record(place)
        data = data[:place] + made + data[place + len(made) :]
    log = Log(data)
    assert first_record(log, 0, len(data)) == near
    assert first_record(log, near + 1, len(data)) == far
    assert first_record(log, 0, near + 10) is None
    assert first_record(Log(data[: far - 1]), near + 1, len(data)) is None
