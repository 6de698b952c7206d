"""What stands at a place of the log, judged as 4.9.3 does and a little stricter."""

import struct
from itertools import pairwise

import pytest

from tests.fakes.records import STORE_MS, properties, record
from wakelog.protocol.record import encode_blank
from wakelog.storage.log.record_check import CheckKind, check_record, is_torn_after_body

AT = 8192
SOUND = record(AT, properties(TAGS="a"), body=b"0123456789")
V6 = record(AT, born_host=("::1", 1), store_host=("::2", 2))


def changed(position: int, layout: str, value: int, data: bytes = SOUND) -> bytes:
    out = bytearray(data)
    struct.pack_into(layout, out, position, value)
    return bytes(out)


BODY_AT = 84
TOPIC_AT = 88 + 10
PROPERTIES_AT = TOPIC_AT + 2


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (SOUND, CheckKind.SOUND, ""),
        (V6, CheckKind.SOUND, ""),
        (record(AT, body=b""), CheckKind.SOUND, ""),
        (encode_blank(8), CheckKind.END_OF_FILE, ""),
        (encode_blank(100), CheckKind.END_OF_FILE, ""),
        (bytes(200), CheckKind.BAD, "magic 0x00000000"),
        (b"", CheckKind.BAD, "0 bytes are no record"),
        (SOUND[:7], CheckKind.BAD, "7 bytes are no record"),
        (SOUND[:-1], CheckKind.BAD, "size 108 with 107 bytes left in the segment"),
        (changed(0, ">i", 0), CheckKind.BAD, "size 0 with"),
        (changed(0, ">i", -5), CheckKind.BAD, "size -5 with"),
        (changed(0, ">i", 90), CheckKind.BAD, "size 90 with"),
        (changed(0, ">i", 1 << 30), CheckKind.BAD, f"size {1 << 30} with"),
        (changed(28, ">q", AT + 1), CheckKind.BAD, f"it says that it lies at {AT + 1}"),
        (changed(TOPIC_AT, ">b", -1), CheckKind.BAD, "a topic length below zero"),
        (changed(36, ">i", 0x30), CheckKind.BAD, "is less than its own head's"),
        (changed(0, ">i", len(SOUND) - 1), CheckKind.SIZE_MISMATCH, "are 1 bytes longer"),
        (changed(BODY_AT, ">i", 9), CheckKind.SIZE_MISMATCH, ""),
        (changed(BODY_AT, ">i", 1 << 30), CheckKind.SIZE_MISMATCH, "the body is longer"),
        (changed(TOPIC_AT, ">b", 127), CheckKind.SIZE_MISMATCH, "the topic is longer"),
        (changed(PROPERTIES_AT, ">h", 5), CheckKind.SIZE_MISMATCH, "are 1 bytes shorter"),
        (changed(PROPERTIES_AT, ">h", -1), CheckKind.SIZE_MISMATCH, "are 6 bytes shorter"),
    ],
)
def test_table(data: bytes, kind: CheckKind, reason: str) -> None:
    check = check_record(data, 0, AT, len(data))
    assert check.kind is kind
    assert reason in check.reason
    assert check.size_bytes == (
        struct.unpack_from(">i", data)[0]
        if kind in (CheckKind.SOUND, CheckKind.SIZE_MISMATCH)
        else 0
    )


def test_a_sound_record_has_its_time() -> None:
    assert check_record(V6, 0, AT, len(V6)).store_timestamp_ms == STORE_MS


@pytest.mark.parametrize("there", range(len(SOUND)))
def test_cut_off_by_the_buffer(there: int) -> None:
    check = check_record(SOUND, 0, AT, there, segment_end=AT + 4096)
    assert check.kind is CheckKind.INCOMPLETE
    assert check.size_bytes == (len(SOUND) if there >= 8 else 0)


def test_a_size_past_the_segment_is_bad_before_it_is_waited_for() -> None:
    check = check_record(SOUND, 0, AT, 50, segment_end=AT + len(SOUND) - 1)
    assert check.kind is CheckKind.BAD


def test_the_body_is_checked_when_asked() -> None:
    flipped = bytearray(SOUND)
    flipped[90] ^= 1
    assert check_record(flipped, 0, AT, len(flipped)).kind is CheckKind.SOUND
    check = check_record(flipped, 0, AT, len(flipped), check_body=True)
    assert (check.kind, check.reason) == (CheckKind.BAD, "the body's CRC differs")
    assert check_record(SOUND, 0, AT, len(SOUND), check_body=True).kind is CheckKind.SOUND


@pytest.mark.parametrize("shift", range(-3, 1))
def test_a_sector_after_the_body_that_was_never_written_is_found(shift: int) -> None:
    """Be it that the topic begins with the sector, and that the record ends in it."""
    body = b"x" * (512 - 88 - 1 + shift)
    data = bytearray(record(0, properties(TAGS="a" * 40), body=body, topic="T" * 30))
    body_end = 88 + len(body)
    assert not is_torn_after_body(bytes(data), body_end, len(data), 0)
    data[512:] = bytes(len(data) - 512)
    assert is_torn_after_body(bytes(data), body_end, len(data), 0)


def test_a_sector_of_the_topic_alone_is_seen() -> None:
    body = b"x" * (512 - 88 - 1)
    data = bytearray(record(0, body=body, topic="T" * 100))
    assert not is_torn_after_body(bytes(data), 511, len(data), 0)
    data[512:] = bytes(len(data) - 512)
    assert is_torn_after_body(bytes(data), 511, len(data), 0)


def test_reads_at_a_position() -> None:
    data = b"\xff" * 5 + SOUND + b"\xff" * 5
    assert check_record(memoryview(data), 5, AT, len(data)).kind is CheckKind.SOUND


def test_a_hole_is_one_if_it_fills_a_part_of_a_sector_and_no_other() -> None:
    """A sector has 512 bytes of the disk, wherever the record lies; topic and properties follow."""
    data = record(0, b"p" * 2_000, body=b"body", topic="T" * 100)
    body_end = data.index(b"body") + 4
    text = body_end + 1 + 100 + 2
    for shift in (0, 1, 100, 511, 512, 4_000):
        borders = [at for at in range(text, len(data)) if (at + shift) % 512 == 0]
        assert len(borders) > 2
        for begin, end in pairwise([*borders, len(data)]):
            for first, last, is_torn in (
                (begin, end, True),
                (begin + 1, end, False),
                (begin, end - 1, False),
            ):
                torn = bytearray(data)
                torn[first:last] = bytes(last - first)
                found = is_torn_after_body(torn, body_end, len(data), shift)
                assert found is is_torn, (shift, first, last)
