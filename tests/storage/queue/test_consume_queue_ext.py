"""Extension units, those of a store that the real 4.9.3 broker wrote above all."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.golden_stores import open_golden
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.paths import StorePaths
from wakelog.storage.queue.consume_queue import ConsumeQueue
from wakelog.storage.queue.consume_queue_ext import (
    ConsumeQueueExt,
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
