"""Bytes that come in any pieces are handed on as whole records, a segment with damage as it is."""

import random
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.replication.test_ha_client_state import content, empty_log, fill
from tests.fakes.logs import SEGMENT_BYTES
from tests.fakes.records import STORE_MS, LogBytes, record
from wakelog.broker.replication import whole_records
from wakelog.broker.replication.whole_records import Received, WholeRecords
from wakelog.protocol.record import (
    BLANK_BYTES,
    BLANK_MAGIC,
    MESSAGE_MAGIC,
    RECORD_BYTES_MIN,
    SIZE_AND_MAGIC,
    encode_blank,
)


def pieces_of(data: bytes, choice: random.Random) -> list[bytes]:
    """Cut bytes at random, and at each segment's end, as frames are."""
    found = []
    for begin in range(0, len(data), SEGMENT_BYTES):
        left = data[begin : begin + SEGMENT_BYTES]
        while left:
            size = choice.randrange(1, 900)
            found.append(left[:size])
            left = left[size:]
    return found


@pytest.mark.parametrize("seed", range(10))
def test_what_is_handed_on_ends_with_a_record(seed: int) -> None:
    choice = random.Random(seed)
    log = empty_log()
    ends = {0}
    for _ in range(60):
        fill(log, 1, choice.randrange(1_000))
        ends.add(log.appended_offset)
    segment_ends = {file.end_offset for file in log.files.files}
    data = content(log)[: log.appended_offset]
    records, copy = WholeRecords(0, SEGMENT_BYTES), b""
    for piece in pieces_of(data, choice):
        for part in records.add(piece) + records.take():
            assert part.offset == len(copy)
            copy += part.data
            assert len(copy) in ends | segment_ends
    assert copy == data and records.end == log.appended_offset


def test_a_segment_with_damage_is_handed_on_as_it_comes() -> None:
    records = WholeRecords(0, SEGMENT_BYTES)
    damage = b"\xff" * 100
    assert [part.data for part in records.add(damage) + records.take()] == [damage]
    rest = bytes(SEGMENT_BYTES - 100)
    assert [part.data for part in records.add(rest)] == [rest]
    assert records.end == SEGMENT_BYTES


HEAD = struct.Struct(">2i20xq")
SMALL_SEGMENT = 600


def whole_end(data: bytes, begin: int, come: int) -> int:
    """Return where what is whole ends of a log [begin, come), by the rules and all at once."""
    at = begin
    while at < come:
        segment_end = (at // SMALL_SEGMENT + 1) * SMALL_SEGMENT
        room = segment_end - at
        if room < BLANK_BYTES:
            size = room
        elif come - at < BLANK_BYTES:
            return at
        else:
            size, magic = SIZE_AND_MAGIC.unpack_from(data, at - begin)
            is_blank = magic == BLANK_MAGIC and size == room
            is_record = magic == MESSAGE_MAGIC and RECORD_BYTES_MIN <= size <= room
            if is_record and come - at >= size:
                is_record = HEAD.unpack_from(data, at - begin)[2] == at
            if not (is_blank or is_record):
                if segment_end > come:
                    return come
                size = room
        if come - at < size:
            return at
        at += size
    return at


BODIES = st.lists(st.integers(0, 250), min_size=1, max_size=8)
CUTS = st.lists(st.integers(0, 5 * SMALL_SEGMENT), max_size=12)
DAMAGE = st.none() | st.tuples(
    st.integers(0, 7), st.sampled_from([0, 4, 28]), st.sampled_from([-1, 0, 8, 90, 91, 100, 599])
)


@given(BODIES, CUTS, DAMAGE, st.sampled_from([0, SMALL_SEGMENT]))
def test_in_any_pieces_all_that_is_whole_is_handed_on_at_once(
    bodies: list[int], cuts: list[int], damage: tuple[int, int, int] | None, begin: int
) -> None:
    log = LogBytes(SMALL_SEGMENT, begin)
    for size in bodies:
        log.add(body=bytes(size))
    log.roll()
    if damage is not None:
        number, field, value = damage
        place = log.offsets[number % len(log.offsets)]
        log.damage(place + field, value.to_bytes(4, "big", signed=True))
    data = bytes(log.data)
    segment_ends = range(begin, log.end + 1, SMALL_SEGMENT)
    ends = sorted({begin, log.end, *segment_ends, *(c + begin for c in cuts if c < len(data))})
    records, copy = WholeRecords(begin, SMALL_SEGMENT), b""
    for start, end in pairwise(ends):
        for part in records.add(data[start - begin : end - begin]) + records.take():
            assert part.offset == begin + len(copy) and part.data
            copy += part.data
        assert records.end == begin + len(copy) == whole_end(data, begin, end)
    assert copy == data


def test_a_segment_may_end_in_bytes_without_a_blank() -> None:
    """4.9.3 leaves a few, for which a blank has no room."""
    bare, second = len(record(0, body=b"")), record(SMALL_SEGMENT)
    for room in range(12):
        first = record(0, body=bytes(SMALL_SEGMENT - bare - room))
        tail = encode_blank(room).ljust(room, b"\0") if room >= BLANK_BYTES else bytes(room)
        records = WholeRecords(0, SMALL_SEGMENT)
        assert records.add(first) + records.take() == [Received(0, memoryview(first), STORE_MS)]
        for come in range(room):
            assert records.add(tail[come : come + 1]) + records.take() == (
                [Received(len(first), memoryview(tail), 0)] if come == room - 1 else []
            )
        assert records.end == len(first + tail) == SMALL_SEGMENT
        assert [part.data for part in records.add(second) + records.take()] == [second]


def test_the_store_time_is_that_of_the_last_record() -> None:
    log = LogBytes(SMALL_SEGMENT)
    for number in range(3):
        log.add(store_timestamp_ms=STORE_MS + number)
    records = WholeRecords(0, SMALL_SEGMENT)
    [part] = records.add(bytes(log.data)) + records.take()
    assert part.stored_ms == STORE_MS + 2
    v6: bytes = record(log.end, sys_flag=0x10 | 0x20, born_host=("::1", 1), store_host=("::1", 2))
    [part] = records.add(v6) + records.take()
    assert part.stored_ms == STORE_MS


@pytest.mark.parametrize("magic", [MESSAGE_MAGIC, BLANK_MAGIC])
@pytest.mark.parametrize(("longer", "waits"), [(0, True), (1, False)])
def test_of_a_record_that_is_too_long_to_wait_for_all_is_handed_on(
    monkeypatch: pytest.MonkeyPatch, magic: int, longer: int, *, waits: bool
) -> None:
    monkeypatch.setattr(whole_records, "RECORD_BYTES_MAX", SMALL_SEGMENT - longer)
    records = WholeRecords(0, SMALL_SEGMENT)
    head = SIZE_AND_MAGIC.pack(SMALL_SEGMENT, magic)
    assert [part.data for part in records.add(head) + records.take()] == ([] if waits else [head])
