"""One table of cases for every walk over stored records: plain, compiled, and of chosen records."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.records import record
from wakelog.compiled.columns import ScanFunctions
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.record import (
    BLANK_BYTES,
    BODY_SIZE_OFFSET_V4,
    HEAD_BYTES_V4,
    MAGIC_OFFSET,
    PHYSICAL_OFFSET_OFFSET,
    RECORD_BYTES_MIN,
    SYS_FLAG_OFFSET,
    decode_record,
    encode_blank,
)
from wakelog.storage.columns.scan_columns import Columns
from wakelog.storage.log.record_check import CheckKind, check_record
from wakelog.storage.log.record_walk import check_at, next_sound, walk_records
from wakelog.storage.read.frames import mismatched_places

AT = 8192
BODY = b"0123456789"
SOUND = record(AT, b"TAGS\x01a", body=BODY)
EMPTY = record(AT, body=b"", topic="")
V6 = record(AT, b"TAGS\x01a", born_host=("::1", 1), store_host=("::2", 2))
BORN_V6 = record(AT, born_host=("::1", 1))
LONGEST_TEXTS = record(AT, b"p" * 32767, topic="t" * 127)
TOPIC_AT = HEAD_BYTES_V4 + len(BODY)
PROPERTIES_AT = TOPIC_AT + 2


def changed(position: int, layout: str, value: int, data: bytes = SOUND) -> bytes:
    out = bytearray(data)
    struct.pack_into(layout, out, position, value)
    return bytes(out)


WELL_FORMED = {
    "usual": SOUND,
    "empty": EMPTY,
    "two v6 hosts": V6,
    "one v6 host": BORN_V6,
    "longest topic and properties": LONGEST_TEXTS,
    "a record in the body": record(AT, body=record(AT + HEAD_BYTES_V4, b"K\x01v")),
    "a negative body length": changed(BODY_SIZE_OFFSET_V4, ">i", -7, EMPTY),
    "a negative properties length": changed(len(EMPTY) - 2, ">h", -7, EMPTY),
    "a body with another CRC": SOUND.replace(BODY, BODY[::-1]),
}
DAMAGED = {
    "a blank": encode_blank(100).ljust(100, b"\0"),
    "zeros": bytes(200),
    "another magic": changed(MAGIC_OFFSET, ">i", 1),
    "another place": changed(PHYSICAL_OFFSET_OFFSET, ">q", AT + 1),
    "size 0": changed(0, ">i", 0),
    "a negative size": changed(0, ">i", -5),
    "a size below the smallest": changed(0, ">i", RECORD_BYTES_MIN - 1),
    "a size 1 too small": changed(0, ">i", len(SOUND) - 1),
    "a size 1 too large": changed(0, ">i", len(SOUND) + 1, SOUND + b"\0"),
    "the largest size": changed(0, ">i", (1 << 31) - 1),
    "a body length 1 too small": changed(BODY_SIZE_OFFSET_V4, ">i", len(BODY) - 1),
    "a body length 1 too large": changed(BODY_SIZE_OFFSET_V4, ">i", len(BODY) + 1),
    "the largest body length": changed(BODY_SIZE_OFFSET_V4, ">i", (1 << 31) - 1),
    "a body length below zero with a body": changed(BODY_SIZE_OFFSET_V4, ">i", -1),
    "a negative topic length": changed(TOPIC_AT, ">b", -1),
    "the largest topic length": changed(TOPIC_AT, ">b", 127),
    "a topic length 1 too small": changed(TOPIC_AT, ">b", 0),
    "a properties length 1 too small": changed(PROPERTIES_AT, ">h", 5),
    "a properties length 1 too large": changed(PROPERTIES_AT, ">h", 7),
    "a negative properties length with properties": changed(PROPERTIES_AT, ">h", -1),
    "host bits of v6, hosts of v4": changed(SYS_FLAG_OFFSET, ">i", 0x30),
    "host bits of v4, hosts of v6": changed(SYS_FLAG_OFFSET, ">i", 0, V6),
    "a topic length 1 too large": changed(TOPIC_AT, ">b", 2),
    "the smallest topic length": changed(TOPIC_AT, ">b", -128),
    **{f"the first {length} bytes": SOUND[:length] for length in range(len(SOUND))},
}
CASES = [
    *(pytest.param(data, len(data), id=name) for name, data in WELL_FORMED.items()),
    *(pytest.param(data, 0, id=name) for name, data in DAMAGED.items()),
]


def plain_ends(data: bytes, at: int = AT) -> list[int]:
    return [one[1] for one in walk_records(data, 0, len(data), at)]


def compiled_ends(functions: ScanFunctions, data: bytes, at: int = AT) -> list[int]:
    """Scan bytes that end where their array ends: a read after it would meet other memory."""
    columns = Columns(functions, buffer_bytes=len(data), records_max=8)
    columns.buffer[:] = data
    end = len(data)
    scan = columns.scan(begin=0, end=end, physical_offset=at, segment_end=at + end)
    ends = [request.physical_offset_end - at for request in columns.requests()]
    assert scan.next_position == (ends[-1] if ends else 0)
    return ends


@pytest.mark.parametrize(("data", "end"), CASES)
def test_each_walk_accepts_the_same_records(
    functions: ScanFunctions, data: bytes, end: int
) -> None:
    expected = [end] if end else []
    assert plain_ends(data) == expected
    assert compiled_ends(functions, data) == expected
    is_sound = check_record(data, 0, AT, len(data)).kind is CheckKind.SOUND
    assert is_sound == bool(end)
    if len(data) >= RECORD_BYTES_MIN:
        found = mismatched_places(memoryview(data), AT, [(AT, len(data))])
        assert (found == []) == bool(end)


@pytest.mark.parametrize(("data", "end"), CASES)
def test_a_walk_goes_on_after_a_record_and_stops_before_anything_else(
    functions: ScanFunctions, data: bytes, end: int
) -> None:
    first = record(AT - 91, body=b"", topic="")
    both = first + data
    expected = [91, 91 + end] if end else [91]
    assert plain_ends(both, AT - 91) == expected
    assert compiled_ends(functions, both, AT - 91) == expected


@pytest.mark.parametrize(("data", "end"), CASES)
def test_a_check_that_reads_what_it_needs_agrees(
    monkeypatch: pytest.MonkeyPatch, data: bytes, end: int
) -> None:
    monkeypatch.setattr("wakelog.storage.log.record_walk._PIECE_BYTES", 112)
    read_bytes = 0

    def read(physical_offset: int, bytes_max: int) -> bytes:
        nonlocal read_bytes
        piece = data[physical_offset - AT :][:bytes_max]
        read_bytes += len(piece)
        return piece

    readable_end = AT + len(data)
    check = check_at(read, AT, readable_end, segment_end=1 << 40)
    assert (check.kind is CheckKind.SOUND) == bool(end)
    assert read_bytes <= 112 + len(data)
    found = next_sound(read, AT, readable_end, readable_end=readable_end, segment_end=1 << 40)
    if end:
        assert found is not None and found[0] == AT


@pytest.mark.parametrize(("data", "end"), CASES)
def test_decoding_accepts_no_record_that_a_walk_refuses(data: bytes, end: int) -> None:
    # The decoder does not know a record's place. It refuses lengths below zero.
    negative = [data for name, data in WELL_FORMED.items() if "negative" in name]
    if (end and data not in negative) or data == DAMAGED["another place"]:
        assert decode_record(data).size_bytes == len(data)
    else:
        with pytest.raises(RemoteProtocolError):
            decode_record(data)


@given(st.binary(max_size=400))
def test_walks_agree_on_any_bytes(data: bytes) -> None:
    assert plain_ends(data) == []


@given(st.integers(0, len(SOUND) - 1), st.integers(0, 255))
def test_walks_agree_on_a_record_with_one_other_byte(at: int, value: int) -> None:
    data = bytearray(SOUND)
    data[at] = value
    kind = check_record(data, 0, AT, len(data)).kind
    assert plain_ends(bytes(data)) == ([len(data)] if kind is CheckKind.SOUND else [])


@pytest.mark.parametrize("search_bytes", [BLANK_BYTES, 9, 1000])
def test_a_search_finds_the_first_sound_record(
    monkeypatch: pytest.MonkeyPatch, search_bytes: int
) -> None:
    monkeypatch.setattr("wakelog.storage.log.record_walk.SEARCH_BYTES", search_bytes)
    noise = b"\0" * 50 + DAMAGED["another place"] + b"\xda" * 7
    place = AT + len(noise)
    data = noise + record(place, body=b"x" * 5000) + bytes(20)

    def read(physical_offset: int, bytes_max: int) -> bytes:
        return data[physical_offset - AT :][:bytes_max]

    end = AT + len(data)
    for begin in (AT, place - 1, place):
        found = next_sound(read, begin, end, readable_end=end, segment_end=1 << 40)
        assert found is not None and found[0] == place
    assert next_sound(read, place + 1, end, readable_end=end, segment_end=1 << 40) is None
    assert next_sound(read, AT, place, readable_end=end, segment_end=1 << 40) is None
    cut = end - 30
    assert next_sound(read, AT, cut, readable_end=cut, segment_end=1 << 40) is None
