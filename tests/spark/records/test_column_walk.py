"""A walk over a range of a segment: what the buffer cuts, what is damaged, what a file lacks."""

from pathlib import Path

import pytest

from tests.fakes.records import LogBytes
from tests.spark.logs import FS, write_segments
from wakelog.compiled.layout import PHYSICAL_OFFSET
from wakelog.spark.records.bodiless_walk import BodilessWalk
from wakelog.spark.records.column_walk import (
    FILE_ENDS,
    Damage,
    RecordWalk,
    Sound,
    adds_up,
    last_sound_end,
    next_sound_begin,
)
from wakelog.spark.stores import OpenSegment, open_store

SEGMENT_BYTES = 1 << 16


def open_log(folder: Path, log: LogBytes) -> OpenSegment:
    store = open_store(FS, str(write_segments(folder, log)))
    return OpenSegment(FS, store.segments[0])


@pytest.fixture(params=["whole", "bodiless"])
def any_walk(request: pytest.FixtureRequest, walk: RecordWalk) -> RecordWalk | BodilessWalk:
    if request.param == "whole":
        return walk
    # Room for 16 records, or for one with the longest texts.
    return BodilessWalk(
        window_bytes=1 << 12, window_records_max=8, kept_bytes=1 << 12, records_max=16
    )


def walked(
    walk: RecordWalk | BodilessWalk, file: OpenSegment, begin: int, end: int
) -> tuple[list[int], list[Damage]]:
    found: list[int] = []
    damage: list[Damage] = []
    position = begin
    for step in walk.steps(file, begin, end):
        assert step.begin == position
        position = step.end
        if isinstance(step, Sound):
            found += walk.numbers[: walk.count, PHYSICAL_OFFSET].tolist()
        else:
            damage.append(step)
    file.close()
    return found, damage


def long_log(*sizes: int) -> LogBytes:
    log = LogBytes(segment_bytes=SEGMENT_BYTES)
    for size in sizes:
        log.add(body=bytes(size))
    return log


@pytest.mark.parametrize("sizes", [(10,) * 100, (5000, 10, 9000, 10), (4000,), (20_000, 3000)])
def test_records_that_the_buffer_cuts_are_whole(
    sizes: tuple[int, ...], any_walk: RecordWalk | BodilessWalk, tmp_path: Path
) -> None:
    log = long_log(*sizes)
    assert walked(any_walk, open_log(tmp_path, log), 0, log.end) == (log.offsets, [])


def test_a_range_may_begin_and_end_at_any_record(
    any_walk: RecordWalk | BodilessWalk, tmp_path: Path
) -> None:
    log = long_log(*[100] * 60)
    file = open_log(tmp_path, log)
    assert walked(any_walk, file, log.offsets[20], log.offsets[40]) == (log.offsets[20:40], [])


def test_a_blank_ends_the_range(any_walk: RecordWalk | BodilessWalk, tmp_path: Path) -> None:
    log = long_log(10, 10)
    log.roll()
    assert walked(any_walk, open_log(tmp_path, log), 0, SEGMENT_BYTES) == (log.offsets, [])


def test_damage_reaches_to_the_next_sound_record(
    any_walk: RecordWalk | BodilessWalk, tmp_path: Path
) -> None:
    log = long_log(10, 6000, 10, 10)
    log.damage(log.offsets[1], b"\0" * 8)
    found, damage = walked(any_walk, open_log(tmp_path, log), 0, log.end)
    assert found == [log.offsets[0], *log.offsets[2:]]
    assert damage == [Damage(log.offsets[1], log.offsets[2], "magic 0x00000000")]


def test_a_wrong_size_does_not_grow_the_buffer(
    any_walk: RecordWalk | BodilessWalk, tmp_path: Path
) -> None:
    log = long_log(10, 10, 10)
    log.damage(log.offsets[1], (60_000).to_bytes(4, "big"))
    before = len(any_walk.buffer)
    found, damages = walked(any_walk, open_log(tmp_path, log), 0, SEGMENT_BYTES - 8)
    damage = damages[0]
    assert found == [log.offsets[0], log.offsets[2]]
    assert (damage.begin, damage.end) == (log.offsets[1], log.offsets[2])
    assert len(any_walk.buffer) == before


def test_a_record_inside_a_body_is_no_record(
    any_walk: RecordWalk | BodilessWalk, tmp_path: Path
) -> None:
    inner = long_log(10)
    log = long_log(10)
    log.add(body=bytes(inner.data))
    log.add()
    assert walked(any_walk, open_log(tmp_path, log), 0, log.end) == (log.offsets, [])


def test_a_file_that_became_shorter_is_damage(
    any_walk: RecordWalk | BodilessWalk, tmp_path: Path
) -> None:
    log = long_log(*[100] * 60)
    file = open_log(tmp_path, log)
    with open(next(tmp_path.iterdir()), "r+b") as segment:
        segment.truncate(log.offsets[50])
    found, damage = walked(any_walk, file, 0, log.end)
    assert found == log.offsets[:50]
    assert damage == [Damage(log.offsets[50], log.end, FILE_ENDS)]


@pytest.mark.parametrize("kept", [0, 1, 39, 40, 87, 91, 5000, 5091])
def test_a_record_that_the_file_cuts_does_not_add_up(kept: int, tmp_path: Path) -> None:
    log = long_log(5000)
    assert log.end > kept
    file = open_log(tmp_path, log)
    assert adds_up(file, 0, log.end)
    assert not adds_up(file, 0, kept)
    with open(next(tmp_path.iterdir()), "r+b") as segment:
        segment.truncate(kept)
    assert not adds_up(file, 0, log.end)
    file.close()


def test_a_search_meets_a_magic_between_two_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = long_log(10, 10)
    file = open_log(tmp_path, log)
    for read_bytes in range(9, 200):
        monkeypatch.setattr("wakelog.storage.log.record_walk.SEARCH_BYTES", read_bytes)
        assert next_sound_begin(file, 1, log.end) == log.offsets[1]
        assert next_sound_begin(file, log.offsets[1] + 1, log.end) == log.end
    file.close()


@pytest.mark.parametrize(("damaged", "expected"), [((), 40), ((39,), 39), ((3, 38, 39), 38)])
def test_the_last_record_with_a_sound_body(
    damaged: tuple[int, ...], expected: int, tmp_path: Path
) -> None:
    log = LogBytes(segment_bytes=1 << 16)
    for _ in range(40):
        log.add(body=b"x" * 200)
    ends = [*log.offsets, log.end]
    for number in damaged:
        log.damage(log.offsets[number] + 150, b"y")
    store = open_store(FS, str(write_segments(tmp_path, log)))
    file = OpenSegment(FS, store.segments[0])
    assert last_sound_end(file, 0, file.end) == ends[expected]
    assert last_sound_end(file, log.end, file.end) is None
    file.close()
