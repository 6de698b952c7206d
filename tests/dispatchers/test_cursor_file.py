"""A plug-in's position on disk."""

import struct
import zlib

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.dispatchers.cursor_file import SLOT_BYTES, CursorFile, is_dispatcher_name


def test_keeps_the_last_position(fs: MemoryFileSystem) -> None:
    file = CursorFile(fs, "/store", "mine")
    assert file.read() is None
    for position in (0, 100, 50, 1 << 40):
        file.write(position)
        assert CursorFile(fs, "/store", "mine").read() == position
    assert fs.list_directory("/store") == ["wakelog.cursor.mine"]
    assert len(read_file(fs, file.path)) == 2 * SLOT_BYTES
    assert fs.descriptor_count == 0


def test_the_name_of_a_new_file_is_durable(fs: MemoryFileSystem) -> None:
    file = CursorFile(fs, "/store", "mine")
    fs.calls.clear()
    for position in range(3):
        file.write(position)
    assert (fs.calls["datasync"], fs.calls["sync_directory"]) == (3, 1)


def test_a_new_writer_goes_on_counting(fs: MemoryFileSystem) -> None:
    for position in range(5):
        file = CursorFile(fs, "/store", "mine")
        file.read()
        file.write(position)
    assert CursorFile(fs, "/store", "mine").read() == 4


@pytest.mark.parametrize("at", range(SLOT_BYTES - 4))
def test_a_torn_write_leaves_the_one_before(fs: MemoryFileSystem, at: int) -> None:
    file = CursorFile(fs, "/store", "mine")
    file.write(1 << 30)
    file.write(2 << 30)
    data = bytearray(read_file(fs, file.path))
    data[at] ^= 0xFF  # the second write went to slot 0
    write_file(fs, file.path, bytes(data))
    assert CursorFile(fs, "/store", "mine").read() == 1 << 30


def test_an_impossible_number_makes_a_slot_invalid(fs: MemoryFileSystem) -> None:
    """Behind the greatest no other could be written."""
    slot = struct.pack(">8sqq", b"wlcursor", (1 << 63) - 1, 5)
    slot += struct.pack(">I4x", zlib.crc32(slot))
    write_file(fs, "/store/wakelog.cursor.mine", slot)
    file = CursorFile(fs, "/store", "mine")
    assert file.read() is None
    file.write(7)
    assert CursorFile(fs, "/store", "mine").read() == 7


def test_nothing_readable_is_none(fs: MemoryFileSystem) -> None:
    write_file(fs, "/store/wakelog.cursor.mine", b"short")
    assert CursorFile(fs, "/store", "mine").read() is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mine", True),
        ("my_2", True),
        ("a" * 63, True),
        ("", False),
        ("2x", False),
        ("../x", False),
        ("A", False),
        ("a.b", False),
        ("ä", False),
        ("a" * 64, False),
    ],
)
def test_names(name: str, expected: bool) -> None:
    assert is_dispatcher_name(name) is expected
