"""Extension units of the real 4.9.3 broker are read; ours follow each other after a cut."""

import base64
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.golden_stores import open_golden
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.allocate import make_segment
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.paths import StorePaths
from wakelog.storage.queue.consume_queue import ConsumeQueue
from wakelog.storage.queue.consume_queue_ext import (
    UNIT_BYTES_MAX,
    ConsumeQueueExt,
    ConsumeQueueExtWriter,
    ExtensionUnit,
    is_extension_address,
)
from wakelog.storage.queue.entries import ENTRY

FILE_BYTES = 64
BASE = -(1 << 63)


@pytest.mark.parametrize(
    ("tags_code", "expected"),
    [(0, False), (1, False), (-(1 << 31), False), (-(1 << 31) - 1, True), (BASE, True)],
)
def test_what_is_an_address(tags_code: int, expected: bool) -> None:
    assert is_extension_address(tags_code) is expected


def open_ext(fs: MemoryFileSystem) -> ConsumeQueueExt:
    return ConsumeQueueExt(fs, "/ext/T/0", file_bytes=FILE_BYTES, open_files=OpenFiles(2))


def unit(tags_code: int, bitmap: bytes = b"") -> bytes:
    return struct.pack(">hqqh", 20 + len(bitmap), tags_code, 5, len(bitmap)) + bitmap


def test_units_of_two_files() -> None:
    fs = MemoryFileSystem()
    first = unit(1) + unit(2, b"ab") + b"\xff\xff"
    write_file(fs, "/ext/T/0/" + "0" * 20, first.ljust(FILE_BYTES, b"\0"))
    ext = open_ext(fs)
    assert ext.unit(BASE) == ExtensionUnit(20, 1, 5, b"")
    assert ext.unit(BASE + 20) == ExtensionUnit(22, 2, 5, b"ab")
    assert ext.unit(BASE + 42) is None  # the mark of the file's end
    assert ext.unit(BASE + 50) is None  # never written
    assert ext.unit(BASE + FILE_BYTES - 1) is None
    assert ext.unit(BASE + FILE_BYTES) is None
    assert ext.unit(7) is None
    write_file(fs, f"/ext/T/0/{FILE_BYTES:020d}", unit(3).ljust(FILE_BYTES, b"\0"))
    assert ext.unit(BASE + FILE_BYTES) == ExtensionUnit(20, 3, 5, b"")
    ext.close()
    assert fs.descriptor_count == 0


@pytest.mark.golden
def test_a_file_that_was_removed_since_it_was_listed_has_no_unit() -> None:
    fs = MemoryFileSystem()
    for number in range(2):
        path = f"/ext/T/0/{number * FILE_BYTES:020d}"
        write_file(fs, path, unit(number).ljust(FILE_BYTES, b"\0"))
    ext = open_ext(fs)
    assert ext.unit(BASE + FILE_BYTES) == ExtensionUnit(20, 1, 5, b"")
    fs.unlink("/ext/T/0/" + "0" * 20)
    assert ext.unit(BASE) is None
    ext.close()


def test_a_unit_that_the_disk_does_not_give_is_an_error() -> None:
    fs = MemoryFileSystem()
    write_file(fs, "/ext/T/0/" + "0" * 20, unit(1).ljust(FILE_BYTES, b"\0"))
    ext = open_ext(fs)
    assert ext.unit(BASE) is not None
    fs.fail("pread")
    with pytest.raises(StoreFailed):
        ext.unit(BASE)
    ext.close()


def test_units_of_the_real_broker(tmp_path: Path) -> None:
    store, manifest = open_golden("filter_ext", tmp_path)
    fs, paths = FileSystem(), StorePaths(str(store))
    settings = manifest["brokerConfig"]
    compared = 0
    for listed in manifest["consumeQueueEntries"]:
        key = (listed["topic"], listed["queueId"])
        queue = ConsumeQueue(
            fs,
            paths.consume_queue(*key),
            file_bytes=int(settings["mappedFileSizeConsumeQueue"]),
            open_files=OpenFiles(2),
        )
        ext = ConsumeQueueExt(
            fs,
            paths.consume_queue_extension(*key),
            file_bytes=int(settings["mappedFileSizeConsumeQueueExt"]),
            open_files=OpenFiles(2),
        )
        assert queue.end_of_written() == listed["maxOffset"]
        for i, expected in enumerate(listed.get("ext", [])):
            assert ENTRY.unpack(queue.entries(i, 1)) == tuple(listed["entries"][i])
            found = ext.unit(listed["entries"][i][2])
            assert found is not None
            assert found.size_bytes == expected["size"]
            assert found.tags_code == expected["tagsCode"]
            assert found.store_timestamp_ms == expected["msgStoreTime"]
            assert found.bitmap == base64.b64decode(expected.get("filterBitMap", ""))
            compared += 1
        queue.close()
        ext.close()
    assert compared > 50


DIRECTORY = "/store/consumequeue_ext/T/0"


def open_writer(
    fs: MemoryFileSystem, last_address: int | None = None, *, file_bytes: int = FILE_BYTES
) -> ConsumeQueueExtWriter:
    def make_file(path: str, size_bytes: int) -> None:
        temporary = f"/store/{path.replace('/', '.')}"
        make_segment(fs, path, size_bytes, temporary_path=temporary)

    writer = ConsumeQueueExtWriter(
        fs, DIRECTORY, file_bytes=file_bytes, open_files=OpenFiles(2), make_file=make_file
    )
    writer.recover(last_address)
    return writer


def put(writer: ConsumeQueueExtWriter, *units: tuple[int, bytes]) -> list[int | None]:
    """Put units of (tags code, bitmap) and write them; return offsets instead of addresses."""
    addresses = [writer.put(tags_code, 5, bitmap) for tags_code, bitmap in units]
    writer.write_pending()
    return [None if address is None else address - BASE for address in addresses]


def stored(fs: MemoryFileSystem) -> dict[int, bytes]:
    names = fs.list_directory(DIRECTORY) if fs.exists(DIRECTORY) else []
    return {int(name): read_file(fs, f"{DIRECTORY}/{name}") for name in names}


def padded(data: bytes) -> bytes:
    return data.ljust(FILE_BYTES, b"\0")


def test_units_follow_each_other(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs)
    assert put(writer, (1, b""), (2, b"ab")) == [0, 20]
    assert stored(fs) == {0: padded(unit(1) + unit(2, b"ab"))}
    assert writer.unit(BASE + 20) == ExtensionUnit(22, 2, 5, b"ab")
    assert writer.dirty_paths() == [f"{DIRECTORY}/{0:020d}"]
    assert writer.dirty_paths() == []


@pytest.mark.parametrize(
    ("bitmap_bytes", "offsets"),
    # Four bytes of a file stay free: 20 + 20 + 20 fill one, 20 + 20 + 21 do not fit.
    [
        ((0, 0, 0, 0), [0, 20, 40, 64]),
        ((0, 0, 1, 1), [0, 20, 64, 85]),
        ((40, 40, 40), [0, 64, 128]),
        ((20, 1, 0), [0, 64, 85]),
    ],
)
def test_a_unit_without_room_goes_to_the_next_file(
    fs: MemoryFileSystem, bitmap_bytes: tuple[int, ...], offsets: list[int]
) -> None:
    assert put(open_writer(fs), *((1, bytes(count)) for count in bitmap_bytes)) == offsets


def test_the_end_of_a_file_is_marked(fs: MemoryFileSystem) -> None:
    put(open_writer(fs), *((i, b"abc") for i in range(3)))
    first = unit(0, b"abc") + unit(1, b"abc") + b"\xff\xff"
    assert stored(fs) == {0: padded(first), FILE_BYTES: padded(unit(2, b"abc"))}


def test_a_file_takes_no_room_before_it_is_written(fs: MemoryFileSystem) -> None:
    put(open_writer(fs, file_bytes=1 << 20), (1, b""))
    fd = fs.open(f"{DIRECTORY}/{0:020d}", read_only=True)
    assert fs.size(fd) == 1 << 20
    fs.close(fd)


@pytest.mark.parametrize(
    ("file_bytes", "bitmap_bytes", "fits"),
    [
        (FILE_BYTES, 40, True),
        (FILE_BYTES, 41, False),
        (1 << 16, UNIT_BYTES_MAX - 20, True),
        (1 << 16, UNIT_BYTES_MAX - 19, False),
    ],
)
def test_a_unit_that_is_too_long_gets_no_address(
    fs: MemoryFileSystem, file_bytes: int, bitmap_bytes: int, fits: bool
) -> None:
    writer = open_writer(fs, file_bytes=file_bytes)
    assert put(writer, (1, bytes(bitmap_bytes))) == [0 if fits else None]
    assert (writer.end > 0) is fits


def test_units_continue_after_that_of_the_last_entry(fs: MemoryFileSystem) -> None:
    put(open_writer(fs), *((i, b"") for i in range(5)))
    again = open_writer(fs, BASE + 20)
    # Those behind were written for entries that are gone, the mark and the second file too.
    assert stored(fs) == {0: padded(unit(0) + unit(1))}
    assert put(again, (7, b"")) == [40]
    assert stored(fs) == {0: padded(unit(0) + unit(1) + unit(7))}


def test_units_begin_at_0_if_no_entry_has_one(fs: MemoryFileSystem) -> None:
    put(open_writer(fs), *((i, b"") for i in range(5)))
    assert put(open_writer(fs), (7, b"")) == [0]
    assert stored(fs) == {0: padded(unit(7))}


@pytest.mark.parametrize("lost", ["all files", "the last file", "the unit"])
def test_a_lost_unit_is_not_handed_out_again(fs: MemoryFileSystem, lost: str) -> None:
    put(open_writer(fs), *((i, b"") for i in range(5)))  # the last one at 84
    if lost == "the unit":
        write_file(fs, f"{DIRECTORY}/{FILE_BYTES:020d}", bytes(FILE_BYTES))
    else:
        names = fs.list_directory(DIRECTORY)
        for name in names if lost == "all files" else names[-1:]:
            fs.unlink(f"{DIRECTORY}/{name}")
    again = open_writer(fs, BASE + 84)
    assert put(again, (7, b"")) == [2 * FILE_BYTES]
    assert again.unit(BASE + 84) is None
    assert again.unit(BASE + 2 * FILE_BYTES) == ExtensionUnit(20, 7, 5, b"")


def test_files_below_the_first_entry_go(fs: MemoryFileSystem) -> None:
    writer = open_writer(fs)
    offsets = put(writer, *((i, b"") for i in range(10)))
    assert sorted(stored(fs)) == [0, 64, 128, 192]
    assert writer.remove_before(BASE + FILE_BYTES) == 0  # as in 4.9.3, which compares with "<"
    assert writer.remove_before(BASE + FILE_BYTES + 1) == 1
    assert writer.remove_before(BASE + 100 * FILE_BYTES) == 2
    assert sorted(stored(fs)) == [192]
    assert writer.unit(BASE + (offsets[-1] or 0)) == ExtensionUnit(20, 9, 5, b"")


def test_files_after_a_missing_and_a_short_one(fs: MemoryFileSystem) -> None:
    put(open_writer(fs), *((i, b"") for i in range(7)))
    fs.unlink(f"{DIRECTORY}/{FILE_BYTES:020d}")
    writer = open_writer(fs, BASE + 40)
    assert put(writer, (8, b"")) == [FILE_BYTES]
    write_file(fs, f"{DIRECTORY}/{2 * FILE_BYTES:020d}", b"\0\0")
    assert put(open_writer(fs, BASE + FILE_BYTES), (9, b"")) == [FILE_BYTES + 20]
    assert sorted(stored(fs)) == [0, FILE_BYTES]


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20), st.data())
def test_a_cut_and_the_same_again_gives_the_same_files(
    bitmaps: list[bytes], data: st.DataObject
) -> None:
    fs = MemoryFileSystem()
    fs.make_directories("/store")
    writer = open_writer(fs)
    offsets = put(writer, *enumerate(bitmaps))
    expected = stored(fs)
    kept = data.draw(st.integers(0, len(bitmaps)))
    last = offsets[kept - 1] if kept else None
    again = open_writer(fs, None if last is None else BASE + last)
    assert put(again, *list(enumerate(bitmaps))[kept:]) == offsets[kept:]
    assert stored(fs) == expected


def test_what_a_killed_writer_may_not_have_synced(fs: MemoryFileSystem) -> None:
    put(open_writer(fs), (1, b"a"), (2, b"b" * 30), (3, b"c"))
    again = open_writer(fs, BASE + FILE_BYTES)
    assert len(stored(fs)) == 2
    again.mark_unsynced()
    assert again.dirty_paths() == [f"{DIRECTORY}/{first:020d}" for first in (0, FILE_BYTES)]
    assert again.dirty_paths() == []
