"""How far the log is durable, and the seal of a clean stop; `test_slot_file` has the slots."""

from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.durability.watermark import (
    SLOTS,
    Mark,
    Seal,
    Watermark,
    checkpoint_digest,
    read_mark,
)

PATH = "/store/wakelog.watermark"
SEAL = Seal(checkpoint_digest(bytes(4096)), 1 << 30, 1_700_000_000_000)


def test_a_slot_as_documented() -> None:
    """docs/formats/watermark.md gives these places."""
    slot = SLOTS.encode(Mark(True, 5, 6_000, 7, *SEAL))
    assert len(slot) == 68
    assert (slot[:4], slot[32:48]) == (b"WLWM", SEAL.checkpoint_digest)
    places = [(4, 8), (8, 16), (16, 24), (24, 32), (48, 56), (56, 64)]
    fields = [int.from_bytes(slot[begin:end]) for begin, end in places]
    assert fields == [1, 5, 6_000, 7, SEAL.segment_bytes, SEAL.modified_ms]


def test_the_next_writer_continues() -> None:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    first = Watermark(fs, PATH)
    first.note(100, 7)
    assert read_mark(fs, PATH) == Mark(False, 1, 100, 7)
    first.close()
    second = Watermark(fs, PATH)
    second.note(150, 3, SEAL)
    # A checkpoint that was written once may still be there.
    mark = read_mark(fs, PATH)
    assert (mark.physical_offset, mark.physic_ms, mark.seal) == (150, 7, SEAL)
    second.lower(200)
    assert second.mark.physical_offset == 150
    second.lower(50)
    assert read_mark(fs, PATH) == Mark(False, 3, 50, 7)


def test_an_impossible_offset_claims_nothing() -> None:
    assert SLOTS.newest(SLOTS.encode(Mark(False, 1, -5, 1))) == Mark()
