"""Two slots written in turn: a valid one counts, and the newer of two."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.durability.slot_file import (
    SLOT_FILE_BYTES,
    SLOT_POSITIONS,
    SlotFile,
    SlotFormat,
    read_slot,
)

PATH = "/store/slots"


class Level(NamedTuple):
    """What the file of these tests keeps."""

    sequence: int = 0
    value: int = 0


def _pack(level: Level) -> tuple[Any, ...]:
    return 0, level.sequence, level.value


def _unpack(_word: int, sequence: int, value: int) -> Level | None:
    return Level(sequence, value) if value >= 0 else None


SLOTS = SlotFormat(b"TEST", struct.Struct(">4siqq"), _pack, _unpack, Level())


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    return fs


def test_the_newer_slot_counts_whichever_it_is(fs: MemoryFileSystem) -> None:
    assert read_slot(fs, PATH, SLOTS) == Level()
    file = SlotFile(fs, PATH, SLOTS)
    assert len(read_file(fs, PATH)) == SLOT_FILE_BYTES
    for number in (1, 2, 3):
        file.write(Level(number, number * 10))
        assert read_slot(fs, PATH, SLOTS) == file.mark == Level(number, number * 10)
    data = read_file(fs, PATH)
    for number in (2, 3):
        at = SLOT_POSITIONS[number % 2]
        assert data[at:].startswith(SLOTS.encode(Level(number, number * 10)))
    file.close()
    assert fs.descriptor_count == 0


def test_a_sequence_that_does_not_follow_is_not_written(fs: MemoryFileSystem) -> None:
    file = SlotFile(fs, PATH, SLOTS)
    with pytest.raises(AssertionError):
        file.write(Level(2, 10))
    assert read_file(fs, PATH) == bytes(SLOT_FILE_BYTES)


def test_what_another_writer_said_is_taken_in(fs: MemoryFileSystem) -> None:
    first, second = (SlotFile(fs, PATH, SLOTS) for _ in range(2))
    second.write(Level(1, 10))
    assert first.mark == Level()
    assert first.reread() == first.mark == Level(1, 10)


def test_a_slot_that_cannot_be_true_leaves_the_other(fs: MemoryFileSystem) -> None:
    file = SlotFile(fs, PATH, SLOTS)
    file.write(Level(1, 10))
    file.write(Level(2, -1))
    assert read_slot(fs, PATH, SLOTS) == Level(1, 10)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        SLOTS.encode(Level(1, 10))[:-1],
        SLOTS.encode(Level(1, 10)).replace(b"TEST", b"WLWM"),
        struct.pack(">4siqqI", b"TEST", 0, 1, 10, 0),
        b"\xff" * SLOT_FILE_BYTES,
        SLOTS.encode(Level((1 << 63) - 1, 10)),
    ],
    ids=["empty", "short", "of another file", "another sum", "ones", "the last of all"],
)
def test_what_is_not_whole_says_nothing(fs: MemoryFileSystem, data: bytes) -> None:
    write_file(fs, PATH, data)
    assert read_slot(fs, PATH, SLOTS) == Level()
