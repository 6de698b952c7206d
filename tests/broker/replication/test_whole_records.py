"""Bytes that come in any pieces are handed on as whole records, a segment with damage as it is."""

import random

import pytest

from tests.broker.replication.test_ha_client_state import content, empty_log, fill
from tests.fakes.logs import SEGMENT_BYTES
from wakelog.broker.replication.whole_records import WholeRecords


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
