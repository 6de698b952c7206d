"""The end of a log that is stopped, grows, is torn, or lies far after the known place."""

import zlib
from pathlib import Path

import pytest

from tests.fakes.records import LogBytes
from tests.spark.logs import FS, write_segments
from wakelog.spark import log_end
from wakelog.spark.log_end import TAIL_BYTES, find_log_end, has_tail, tail_damage, tail_of
from wakelog.spark.stores import OpenSegment, open_store

TAILED_BYTES = 512


def end_of(folder: Path, known: int = 0) -> int:
    store = open_store(FS, str(folder))
    return find_log_end(FS, store, known=known, repeated=known > 0)


def log_of(count: int, **values: bytes) -> LogBytes:
    log = LogBytes(segment_bytes=1 << 16)
    for _ in range(count):
        log.add(**values)
    return log


def rewrite(folder: Path, log: LogBytes) -> Path:
    for path in folder.glob("*"):
        path.unlink()
    return write_segments(folder, log)


def test_a_log_ends_after_its_last_record(tmp_path: Path) -> None:
    log = log_of(3)
    assert end_of(write_segments(tmp_path, log)) == log.end


def test_an_empty_segment_after_the_log_is_not_its_end(tmp_path: Path) -> None:
    log = log_of(3)
    end = log.end
    log.roll()
    folder = write_segments(tmp_path, log)
    (folder / f"{1 << 16:020d}").write_bytes(bytes(1 << 16))
    assert end_of(folder) == end_of(folder, known=log.offsets[1]) == end


@pytest.mark.parametrize("known", [0, 1])
def test_an_empty_segment_that_a_broker_removes_as_it_stops_is_passed_over(
    known: int, tmp_path: Path
) -> None:
    log = log_of(3)
    end = log.end
    log.roll()
    folder = write_segments(tmp_path, log)
    ahead = folder / f"{1 << 16:020d}"
    ahead.write_bytes(bytes(1 << 16))
    store = open_store(FS, str(folder))
    ahead.unlink()
    assert find_log_end(FS, store, known=log.offsets[known]) == end


def test_a_log_without_a_record_ends_where_it_begins(tmp_path: Path) -> None:
    assert end_of(write_segments(tmp_path, LogBytes(begin=8192))) == 8192


@pytest.mark.parametrize("known", [0, 1])
def test_a_record_whose_body_is_not_all_there_is_not_part_of_it(known: int, tmp_path: Path) -> None:
    log = log_of(3, body=b"x" * 50)
    log.damage(log.offsets[2] + 100, b"\0")
    assert end_of(write_segments(tmp_path, log), log.offsets[known]) == log.offsets[2]


def test_damage_in_front_of_a_sound_record_does_not_end_the_log(tmp_path: Path) -> None:
    log = log_of(4)
    log.damage(log.offsets[0], b"XXXXXXXX")
    log.damage(log.offsets[2], b"XXXXXXXX")
    folder = write_segments(tmp_path, log)
    assert end_of(folder) == end_of(folder, known=log.offsets[2]) == log.end


def test_a_search_in_a_log_that_grew(tmp_path: Path) -> None:
    log = log_of(2)
    write_segments(tmp_path, log)
    known = end_of(tmp_path)
    assert end_of(tmp_path, known) == known
    log.add(body=bytes(70))
    assert end_of(rewrite(tmp_path, log), known) == log.end
    log.roll()
    log.add()
    assert end_of(rewrite(tmp_path, log), known) == log.end
    assert end_of(tmp_path, log.end) == log.end


def test_records_after_a_hole_are_found_by_a_first_search(tmp_path: Path) -> None:
    log = LogBytes(segment_bytes=1 << 20)
    for size in (10, 300_000, 10):
        log.add(body=bytes(size))
    folder = write_segments(tmp_path, log)
    with open(folder / f"{0:020d}", "r+b") as segment:
        segment.truncate(log.offsets[1])
        segment.truncate(log.offsets[2])
        segment.seek(log.offsets[2])
        segment.write(log.data[log.offsets[2] :])
    assert end_of(folder) == log.end
    # It was looked at before: so many zeros have come since, and nothing behind them.
    assert end_of(folder, known=log.offsets[1]) == log.offsets[1]


def test_records_larger_than_what_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_end, "PIECE_BYTES", 200)
    log = LogBytes(segment_bytes=1 << 16)
    for size in (10, 300, 10, 1000, 1000, 20):
        log.add(body=b"x" * size)
    folder = write_segments(tmp_path, log)
    assert end_of(folder) == log.end
    log.damage(log.offsets[4] + 500, b"y")
    assert end_of(rewrite(folder, log)) == log.end
    log.damage(log.offsets[5] + 90, b"y")
    assert end_of(rewrite(folder, log)) == log.offsets[4]


def test_a_long_search_uses_compiled_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_end, "PIECE_BYTES", 200)
    monkeypatch.setattr(log_end, "PLAIN_BYTES_MAX", 500)
    log = log_of(20)
    folder = write_segments(tmp_path, log)
    asked: list[int] = []

    def walk_end(file: OpenSegment, begin: int, end: int) -> int | None:
        asked.append(begin)
        return None

    monkeypatch.setattr(log_end, "last_sound_end", walk_end)
    found = find_log_end(FS, open_store(FS, str(folder)))
    assert asked == [found] and found in log.offsets


def log_of_three_segments() -> LogBytes:
    log = LogBytes(segment_bytes=TAILED_BYTES)
    while len(log.data) <= 2 * TAILED_BYTES:
        log.add(body=b"%d" % len(log.data))
    return log


def test_a_tail_ends_at_its_place_and_stays_in_its_segment(tmp_path: Path) -> None:
    log = log_of_three_segments()
    store = open_store(FS, str(write_segments(tmp_path / "b", log)))
    for place in (1, TAIL_BYTES + 7, TAILED_BYTES, TAILED_BYTES + 3, log.end):
        segment = (place - 1) // TAILED_BYTES * TAILED_BYTES
        expected = zlib.crc32(log.data[max(place - TAIL_BYTES, segment) : place])
        assert tail_of(FS, store, place) == expected
        assert has_tail(FS, store, place, {"b": expected})
        assert not has_tail(FS, store, place, {"b": expected ^ 1})


def test_a_place_without_a_file_has_no_tail(tmp_path: Path) -> None:
    log = log_of_three_segments()
    folder = write_segments(tmp_path / "b", log)
    store = open_store(FS, str(folder))
    assert tail_of(FS, store, 0) is None
    assert tail_of(FS, store, store.files_end + 1) is None
    assert has_tail(FS, store, log.end, {"other": 1})
    min(folder.iterdir()).unlink()
    assert tail_of(FS, store, 5) is None
    assert tail_of(FS, open_store(FS, str(folder)), TAILED_BYTES) is None


def damage_after(folder: Path) -> tuple[int, int] | None:
    store = open_store(FS, str(folder))
    found = tail_damage(FS, store, find_log_end(FS, store))
    return None if found is None else (found.begin, found.end)


def test_damaged_last_records_are_a_tail(tmp_path: Path) -> None:
    log = log_of(4, properties=b"TAGS\x01a")
    assert damage_after(write_segments(tmp_path, log)) is None
    for place in log.offsets[2:]:
        log.damage(place + 4, b"XXXX")
    assert damage_after(rewrite(tmp_path, log)) == (log.offsets[2], log.end)


def test_a_tail_may_be_all_that_is_written(tmp_path: Path) -> None:
    log = LogBytes(segment_bytes=1 << 16)
    log.data += bytes(100) + b"noise" + bytes(50)
    assert damage_after(write_segments(tmp_path, log)) == (0, 105)


def test_a_blank_is_no_tail_and_noise_in_the_next_segment_is(tmp_path: Path) -> None:
    log = log_of(2)
    log.roll()
    assert damage_after(write_segments(tmp_path, log)) is None
    log.data += b"noise"
    assert damage_after(rewrite(tmp_path, log)) == (1 << 16, (1 << 16) + 5)


def test_new_records_of_a_log_are_no_tail(tmp_path: Path) -> None:
    log = log_of(3)
    store = open_store(FS, str(write_segments(tmp_path, log)))
    assert tail_damage(FS, store, log.offsets[1]) is None
