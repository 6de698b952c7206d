"""The cursor's table: what stands in the log, and where it goes on."""

import struct

import pytest

from tests.dispatchers.stores import NOW_MS, dispatch_config
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.records import LogBytes, record
from wakelog.compiled.columns import ScanFunctions
from wakelog.dispatchers import log_cursor
from wakelog.dispatchers.log_cursor import BadStretch, LogCursor
from wakelog.storage.log.commit_log_reader import CommitLogReader

SEGMENT_BYTES = 4096
CONFIG = dispatch_config(commit_log_file_bytes=SEGMENT_BYTES)


@pytest.fixture(autouse=True)
def bulk_from_the_first_byte_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cursor, "BULK_BYTES_MIN", 1)


class Run:
    """A log on disk and a cursor over it."""

    def __init__(
        self, log: LogBytes, functions: ScanFunctions | None = None, *, skip_segment: bool = False
    ) -> None:
        self.fs = MemoryFileSystem()
        self.log = log
        log.write(self.fs, CONFIG)
        self.reader = CommitLogReader(self.fs, CONFIG)
        self.cursor = LogCursor(self.reader, (), functions=functions, skip_segment=skip_segment)

    def to(self, limit: int) -> list[int]:
        """Read until there is nothing more; return the records' offsets."""
        found: list[int] = []
        while (batch := self.cursor.read(limit, NOW_MS)) is not None:
            assert batch.end <= limit
            found += [request.physical_offset for request in batch.requests]
            self.cursor.passed(batch)
            assert self.cursor.position <= limit
        return found


def log_of(count: int = 30, *, begin: int = 0) -> LogBytes:
    log = LogBytes(SEGMENT_BYTES, begin)
    for i in range(count):
        log.add(body=b"x" * (150 + i))
    return log


def size_at(log: LogBytes, index: int) -> int:
    size: int = struct.unpack_from(">i", log.data, log.offsets[index] - log.begin)[0]
    return size


def test_all_records_over_the_ends_of_files(functions: ScanFunctions | None) -> None:
    log = log_of()
    run = Run(log, functions)
    assert run.to(log.end) == log.offsets
    statistics = run.cursor.statistics()
    assert statistics.position == log.end
    assert statistics.records_count == 30
    assert statistics.records_bytes == sum(size_at(log, i) for i in range(30))
    assert statistics.bulk_records_count == (30 if functions else 0)
    assert statistics.bad_stretches_count == statistics.moved_up_count == 0


def test_columns_are_kept_no_longer_than_they_are_used(functions: ScanFunctions | None) -> None:
    """Those of a burst were kept for good."""
    log = log_of()
    run = Run(log, functions)
    cursor = run.cursor
    while (batch := cursor.read(log.end, NOW_MS)) is not None:
        cursor.passed(batch)
    assert cursor.read(log.end, NOW_MS + log_cursor.COLUMNS_KEPT_MS) is None
    assert (cursor._ahead is None) == (functions is None)
    assert cursor.read(log.end, NOW_MS + log_cursor.COLUMNS_KEPT_MS + 1) is None
    assert cursor._ahead is None
    cursor.move_to(0, log.end)
    assert run.to(log.end) == log.offsets


def test_never_passes_the_limit(functions: ScanFunctions | None) -> None:
    log = log_of()
    run = Run(log, functions)
    found: list[int] = []
    for limit in [*log.offsets, log.end]:
        found += run.to(limit)
        # A limit at the begin of a segment is reached over the blank before it.
        assert run.cursor.position == limit
    assert found == log.offsets


def test_a_batch_that_was_not_passed_comes_again(functions: ScanFunctions | None) -> None:
    log = log_of(5)
    run = Run(log, functions)
    first = run.cursor.read(log.end, NOW_MS)
    again = run.cursor.read(log.end, NOW_MS)
    assert first is not None and again is not None
    assert first.requests == again.requests
    assert run.cursor.position == 0


def test_a_batch_says_whether_it_is_the_last_one(functions: ScanFunctions | None) -> None:
    log = log_of()
    run = Run(log, functions)
    last = False
    while (batch := run.cursor.read(log.end, NOW_MS)) is not None:
        if len(batch):
            assert batch.caught_up == (batch.end == log.end)
            last = batch.caught_up
        run.cursor.passed(batch)
    assert last


def test_below_the_log_it_moves_up(functions: ScanFunctions | None) -> None:
    log = log_of(20, begin=2 * SEGMENT_BYTES)
    run = Run(log, functions)
    run.cursor.move_to(100, log.end)
    assert run.to(log.end) == log.offsets
    assert run.cursor.statistics().moved_up_count == 1
    assert run.cursor.statistics().moved_up_bytes == 2 * SEGMENT_BYTES - 100


def test_a_segment_that_is_removed_under_it(functions: ScanFunctions | None) -> None:
    log = log_of()
    run = Run(log, functions)
    run.to(log.offsets[3])
    run.fs.unlink(f"{CONFIG.paths.commit_log_directories[0]}/{0:020d}")
    run.reader.refresh()
    assert run.to(log.end) == [offset for offset in log.offsets if offset >= SEGMENT_BYTES]
    assert run.cursor.statistics().moved_up_count == 1


def test_a_segment_that_is_not_there_yet() -> None:
    log = log_of(3)
    run = Run(log)
    run.cursor.position = SEGMENT_BYTES
    assert run.to(SEGMENT_BYTES + 100) == []
    assert run.cursor.position == SEGMENT_BYTES


@pytest.mark.parametrize("index", [0, 3, 12])
def test_a_size_mismatch_passes_over_that_record(
    index: int, functions: ScanFunctions | None
) -> None:
    log = log_of()
    log.damage(log.offsets[index] + 84, struct.pack(">i", 3))  # the body's length
    run = Run(log, functions)
    assert run.to(log.end) == [o for i, o in enumerate(log.offsets) if i != index]
    assert run.cursor.statistics().size_mismatches_count == 1
    assert run.cursor.statistics().bad_stretches_count == 0


def test_a_size_that_points_to_no_record_is_not_believed(functions: ScanFunctions | None) -> None:
    log = log_of()
    log.damage(log.offsets[3], struct.pack(">i", size_at(log, 3) + 50))
    run = Run(log, functions)
    assert run.to(log.end) == [o for i, o in enumerate(log.offsets) if i != 3]
    statistics = run.cursor.statistics()
    assert statistics.size_mismatches_count == 1
    assert [stretch[:2] for stretch in statistics.bad_stretches] == [
        (log.offsets[3], log.offsets[4])
    ]


DAMAGES = {
    "magic": (4, b"\0\0\0\0", "magic 0x00000000"),
    "size": (0, b"\0\0\0\0", "size 0 with"),
    "huge size": (0, b"\x7f\xff\xff\xff", "size 2147483647 with"),
    "place": (28, b"\x01", "it says that it lies at"),
    "topic": (88 + 150 + 3, b"\xff", "a topic length below zero"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_bad_record_ends_at_the_next_sound_one(
    name: str, functions: ScanFunctions | None
) -> None:
    at, data, reason = DAMAGES[name]
    log = log_of()
    log.damage(log.offsets[3] + at, data)
    run = Run(log, functions)
    assert run.to(log.end) == [o for i, o in enumerate(log.offsets) if i != 3]
    statistics = run.cursor.statistics()
    [stretch] = statistics.bad_stretches
    assert (stretch.begin, stretch.end) == (log.offsets[3], log.offsets[4])
    assert reason in stretch.reason
    assert statistics.bad_stretches_count == 1
    assert statistics.bad_bytes == log.offsets[4] - log.offsets[3]


def test_a_record_that_states_another_place_is_no_record(functions: ScanFunctions | None) -> None:
    log = LogBytes(SEGMENT_BYTES)
    log.add(body=record(7) + record(1 << 40))
    log.add()
    log.damage(log.offsets[0], b"\0" * 8)
    run = Run(log, functions)
    assert run.to(log.end) == log.offsets[1:]


def test_nothing_sound_behind_in_a_whole_segment(functions: ScanFunctions | None) -> None:
    log = log_of()
    log.damage(log.offsets[3], bytes(SEGMENT_BYTES - log.offsets[3]))
    run = Run(log, functions)
    assert run.to(log.end) == [o for o in log.offsets if o < log.offsets[3] or o >= SEGMENT_BYTES]
    [stretch] = run.cursor.statistics().bad_stretches
    assert (stretch.begin, stretch.end) == (log.offsets[3], SEGMENT_BYTES)


def test_a_bad_end_of_what_is_readable(functions: ScanFunctions | None) -> None:
    log = log_of(5)
    log.damage(log.offsets[3] + 4, b"\0")
    log.damage(log.offsets[4] + 4, b"\0")
    end = log.end
    log.add()
    run = Run(log, functions)
    assert run.to(end) == log.offsets[:3]
    assert run.cursor.position == end
    assert run.cursor.statistics().bad_stretches_count == 1
    # The log goes on after it.
    assert run.to(log.end) == [end]


def test_a_record_that_reaches_over_what_is_readable_is_bad(
    functions: ScanFunctions | None,
) -> None:
    log = log_of(5)
    run = Run(log, functions)
    assert run.to(log.end - 1) == log.offsets[:4]
    [stretch] = run.cursor.statistics().bad_stretches
    assert (stretch.begin, stretch.end) == (log.offsets[4], log.end - 1)
    assert "readable" in stretch.reason


@pytest.mark.parametrize("search_bytes", [*range(91, 101), 1000])
def test_it_searches_in_pieces(
    search_bytes: int, functions: ScanFunctions | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_cursor, "RESYNC_BYTES_MAX", search_bytes)
    log = log_of()
    for index in (2, 3, 4, 9):
        log.damage(log.offsets[index] + 4, b"\0")
    run = Run(log, functions)
    assert run.to(log.end) == [o for i, o in enumerate(log.offsets) if i not in (2, 3, 4, 9)]
    assert [stretch[:2] for stretch in run.cursor.statistics().bad_stretches] == [
        (log.offsets[2], log.offsets[5]),
        (log.offsets[9], log.offsets[10]),
    ]


def test_4_9_3_way_hides_the_rest_of_the_segment(functions: ScanFunctions | None) -> None:
    log = log_of()
    log.damage(log.offsets[3] + 4, b"\0")
    run = Run(log, functions, skip_segment=True)
    assert run.to(log.end) == [o for o in log.offsets if o < log.offsets[3] or o >= SEGMENT_BYTES]
    assert run.cursor.statistics().bad_stretches == (
        BadStretch(log.offsets[3], SEGMENT_BYTES, "magic 0x00a320a7"),
    )


def test_4_9_3_way_believes_a_size(functions: ScanFunctions | None) -> None:
    log = log_of()
    log.damage(log.offsets[3], struct.pack(">i", size_at(log, 3) + size_at(log, 4)))
    run = Run(log, functions, skip_segment=True)
    assert run.to(log.end) == [o for i, o in enumerate(log.offsets) if i not in (3, 4)]
    assert run.cursor.statistics().size_mismatches_count == 1


def test_a_blank_before_the_readable_end_waits(functions: ScanFunctions | None) -> None:
    log = log_of(3)
    end = log.end
    log.roll()
    log.add()
    run = Run(log, functions)
    assert run.to(end + 8) == log.offsets[:3]
    assert run.cursor.position == end
    assert run.to(log.end) == log.offsets[3:]


def test_records_larger_than_one_read(
    functions: ScanFunctions | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_cursor, "PLAIN_BYTES_MAX", 64)
    log = log_of(10)
    assert Run(log, functions).to(log.end) == log.offsets


def test_a_position_inside_a_record_goes_back_to_the_segment(
    functions: ScanFunctions | None,
) -> None:
    log = log_of()
    run = Run(log, functions)
    for position, expected in (
        (log.offsets[3], log.offsets[3]),
        (log.offsets[3] + 1, 0),
        (log.offsets[-1] + 1, log.offsets[-1] // SEGMENT_BYTES * SEGMENT_BYTES),
        (log.end, log.end),
        (SEGMENT_BYTES, SEGMENT_BYTES),
    ):
        run.cursor.move_to(position, log.end)
        assert run.cursor.position == expected
    assert run.cursor.statistics().moved_up_count == 0


def test_few_bad_stretches_are_kept_and_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogBytes(SEGMENT_BYTES)
    for _ in range(400):
        log.add()
    for offset in log.offsets[::2]:
        log.damage(offset + 4, b"\0")
    run = Run(log)
    assert run.to(log.end) == log.offsets[1::2]
    statistics = run.cursor.statistics()
    assert statistics.bad_stretches_count == 200
    assert len(statistics.bad_stretches) == log_cursor.BAD_STRETCHES_KEPT_MAX
    assert statistics.bad_stretches[-1].begin == log.offsets[-2]
