"""Chosen records come out joined and in order, whatever lies between them."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import records
from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import store_config
from wakelog.protocol.record import RECORD_BYTES_MIN
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.read.frames import GAP_BYTES_MAX, Absent, Mismatched, read_frames

SEGMENT_BYTES = 100_000
END = 1 << 40
SIZE = 100


class CountingReader(CommitLogReader):
    """Counts the reads that reach the log."""

    reads = 0

    def view(
        self,
        physical_offset: int,
        size_bytes: int,
        *,
        blocking: bool = True,
        into: memoryview | None = None,
    ) -> memoryview | None:
        self.reads += 1
        return super().view(physical_offset, size_bytes, blocking=blocking, into=into)


def pattern(begin: int, end: int) -> bytes:
    return bytes([(i * 7 + i // 251) % 251 for i in range(begin, end)])


def record(begin: int, size_bytes: int) -> bytes:
    """Return a record of this size at this place, of no topic."""
    body = pattern(begin, begin + size_bytes - RECORD_BYTES_MIN)
    return records.record(begin, body=body, topic="")


def log_of(places: Sequence[tuple[int, int]], segments: int = 2) -> CountingReader:
    """Return a log with records at some places, and nothing of sense between them."""
    return CountingReader(disk_of(places, segments), CONFIG)


def disk_of(places: Sequence[tuple[int, int]], segments: int) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    data = bytearray(PATTERN[: segments * SEGMENT_BYTES])
    for begin, size_bytes in places:
        if begin + size_bytes <= len(data):
            data[begin : begin + size_bytes] = record(begin, size_bytes)
    for begin in range(0, len(data), SEGMENT_BYTES):
        segment = bytes(data[begin : begin + SEGMENT_BYTES])
        write_file(fs, f"/store/commitlog/{begin:020d}", segment)
    return fs


CONFIG = store_config(commit_log_file_bytes=SEGMENT_BYTES)
PATTERN = pattern(0, 2 * SEGMENT_BYTES)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.just(0), st.integers(0, 100), st.integers(0, 3 * GAP_BYTES_MAX)),
            st.integers(91, 500),
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
    frames = read_frames(log_of(places), places, END, blocking=True)
    assert isinstance(frames, list)
    assert b"".join(frames) == b"".join(record(*place) for place in places)
    near = sum(
        b[0] - sum(a) <= GAP_BYTES_MAX and a[0] // SEGMENT_BYTES == b[0] // SEGMENT_BYTES
        for a, b in pairwise(places)
    )
    assert len(frames) == len(places) - near


@pytest.mark.parametrize(
    ("places", "reads"),
    [
        ([(0, SIZE), (SIZE, SIZE), (2 * SIZE, SIZE)], 1),
        ([(0, SIZE), (SIZE + GAP_BYTES_MAX, SIZE)], 1),
        ([(0, SIZE), (SIZE + 1 + GAP_BYTES_MAX, SIZE)], 2),
        ([(SEGMENT_BYTES - 2 * SIZE, SIZE), (SEGMENT_BYTES, SIZE)], 2),
        ([], 0),
    ],
)
def test_what_is_near_is_read_with_one_call(places: list[tuple[int, int]], reads: int) -> None:
    log = log_of(places)
    assert isinstance(read_frames(log, places, END, blocking=True), list)
    assert log.reads == reads


@pytest.mark.parametrize(
    ("asked", "mismatched"),
    [
        ([(0, SIZE), (300, SIZE)], set()),
        ([(0, SIZE), (300, SIZE + 1)], {300}),
        ([(0, SIZE), (301, SIZE)], {301}),
        ([(0, SIZE + 1), (200, SIZE), (300, SIZE)], {0, 200}),
        ([(0, 90), (300, SIZE)], {0}),
        ([(0, -1), (300, 0)], {0, 300}),
        ([(0, SIZE), (300, SEGMENT_BYTES)], {300}),
        ([(0, SIZE), (900, SIZE)], {900}),
        ([(300, SIZE), (0, SIZE)], set()),
        ([(300, SIZE), (300, SIZE)], set()),
    ],
)
def test_a_place_without_its_entrys_record_is_a_mismatch(
    asked: list[tuple[int, int]], mismatched: set[int]
) -> None:
    log = log_of([(0, SIZE), (300, SIZE), (900, SIZE)])
    found = read_frames(log, asked, 950, blocking=True)
    if mismatched:
        assert found == Mismatched(frozenset(mismatched))
    else:
        assert isinstance(found, list)
        assert b"".join(found) == b"".join(record(*place) for place in asked)


HOST = ("127.0.0.1", 10_911)
HOST_V6 = ("::1", 10_911)


def written(begin: int, host: tuple[str, int], body: bytes, flags: int) -> bytes:
    values = {"sys_flag": flags, "born_host": host, "store_host": host, "body": body}
    return records.record(begin, b"TAGS\x01a\x02", topic="TopicTest", **values)


@pytest.mark.parametrize("host", [HOST, HOST_V6])
@pytest.mark.parametrize("body", [b"", b"body" * 20])
@pytest.mark.parametrize("flags", [0, MESSAGE_COMPRESSED])
def test_a_changed_bit_that_can_be_detected_hides_its_own_record(
    host: tuple[str, int], body: bytes, flags: int
) -> None:
    """A client drops all messages of a pull after one that it cannot decode."""
    size = len(written(0, host, body, flags))
    places = [(size * number, size) for number in range(3)]
    data = bytearray().join(written(begin, host, body, flags) for begin, _ in places)
    body_length = size - len(b"TAGS\x01a\x02") - 2 - len("TopicTest") - 1 - len(body) - 4
    properties_length = size - len(b"TAGS\x01a\x02") - 2
    detected = [0, 3, 4, 7, 28, 35, body_length + 3, properties_length + 1]
    detected += [39] if host is HOST else []
    detected += [8, body_length + 4, body_length + 3 + len(body)] if body and flags else []
    for position in detected:
        changed = bytearray(data)
        changed[size + position] ^= 0x10
        fs = MemoryFileSystem()
        write_file(fs, f"/store/commitlog/{0:020d}", bytes(changed).ljust(SEGMENT_BYTES, b"\0"))
        log = CommitLogReader(fs, CONFIG)
        result = read_frames(log, places, END, blocking=True)
        assert result == Mismatched(frozenset([size])), position
        frames = read_frames(log, [places[0], places[2]], END, blocking=True)
        assert isinstance(frames, list)
        assert b"".join(frames) == bytes(data[:size] + data[2 * size :])


def test_an_absent_segment_is_reported_only_where_a_read_may_wait() -> None:
    places = [(SEGMENT_BYTES, SIZE), (2 * SEGMENT_BYTES + 5, SIZE)]
    log = log_of(places)
    assert read_frames(log, places, END, blocking=True) == Absent(2 * SEGMENT_BYTES + 5)
    assert read_frames(log, places, END, blocking=False) is None


def test_a_cold_record_is_not_waited_for() -> None:
    fs = disk_of([(0, SIZE)], 1)
    log = CountingReader(fs, CONFIG)
    fs.cold = True
    assert read_frames(log, [(0, SIZE)], END, blocking=False) is None
    assert read_frames(log, [(0, SIZE)], END, blocking=True) == [record(0, SIZE)]
