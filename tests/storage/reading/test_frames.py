"""Chosen records come out joined and in order, whatever lies between them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import store_config
from wakelog.storage.commit_log_reader import CommitLogReader
from wakelog.storage.reading.frames import GAP_BYTES_MAX, Absent, read_frames

SEGMENT_BYTES = 100_000


class CountingReader(CommitLogReader):
    """Counts the reads that reach the log."""

    reads = 0

    def read(self, physical_offset: int, size_bytes: int) -> bytes | None:
        self.reads += 1
        return super().read(physical_offset, size_bytes)


def pattern(begin: int, end: int) -> bytes:
    return bytes([(i * 7 + i // 251) % 251 for i in range(begin, end)])


def log_of(segments: int) -> tuple[MemoryFileSystem, CountingReader]:
    fs = MemoryFileSystem()
    config = store_config(commit_log_file_bytes=SEGMENT_BYTES)
    for i in range(segments):
        begin = i * SEGMENT_BYTES
        write_file(fs, f"/store/commitlog/{begin:020d}", pattern(begin, begin + SEGMENT_BYTES))
    return fs, CountingReader(fs, config)


LOG = log_of(2)[1]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.just(0), st.integers(0, 100), st.integers(0, 3 * GAP_BYTES_MAX)),
            st.integers(1, 500),
        ),
        max_size=8,
    )
)
def test_joined_pieces_are_the_records(steps: list[tuple[int, int]]) -> None:
    places, end = [], 0
    for gap, size in steps:
        begin = end + gap
        if begin % SEGMENT_BYTES + size > SEGMENT_BYTES:
            begin += SEGMENT_BYTES - begin % SEGMENT_BYTES
        end = begin + size
        if end <= 2 * SEGMENT_BYTES:
            places.append((begin, size))
    frames = read_frames(LOG, places, blocking=True)
    assert isinstance(frames, list)
    assert b"".join(frames) == b"".join(pattern(b, b + size) for b, size in places)
    touching = sum(a[0] + a[1] == b[0] for a, b in pairwise(places))
    assert len(frames) == len(places) - touching


@pytest.mark.parametrize(
    ("places", "reads"),
    [
        ([(0, 10), (10, 10), (20, 10)], 1),
        ([(0, 10), (10 + GAP_BYTES_MAX, 10)], 1),
        ([(0, 10), (11 + GAP_BYTES_MAX, 10)], 2),
        ([(SEGMENT_BYTES - 20, 10), (SEGMENT_BYTES, 10)], 2),
        ([], 0),
    ],
)
def test_what_is_near_is_read_with_one_call(places: list[tuple[int, int]], reads: int) -> None:
    log = log_of(2)[1]
    read_frames(log, places, blocking=True)
    assert log.reads == reads


def test_an_absent_segment_is_told_only_by_who_may_wait() -> None:
    log = log_of(2)[1]
    places = [(SEGMENT_BYTES, 10), (2 * SEGMENT_BYTES + 5, 10)]
    assert read_frames(log, places, blocking=True) == Absent(2 * SEGMENT_BYTES + 5)
    assert read_frames(log, places, blocking=False) is None


def test_a_cold_record_is_not_waited_for() -> None:
    fs, log = log_of(1)
    fs.cold = True
    assert read_frames(log, [(0, 10)], blocking=False) is None
    assert read_frames(log, [(0, 10)], blocking=True) == [pattern(0, 10)]
