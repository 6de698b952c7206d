"""Two folders of one queue: which places differ, and in what."""

import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.audit.findings import Finding, Severity
from wakelog.audit.queue_compare import Extensions, Span, compare_queue
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExtWriter
from wakelog.storage.queue.entries import ENTRY, PADDING_ENTRY

KEY = ("T", 3)
FILE_BYTES = 5 * ENTRY.size
LOG = Span(100, 1000)
NONE = bytes(ENTRY.size)


def entry(physical_offset: int, size: int = 10, tags_code: int = 7) -> bytes:
    return ENTRY.pack(physical_offset, size, tags_code)


A, B, C = entry(100), entry(200), entry(300)


def difference(queue_offset: int, count: int, physical_offset: int, reason: str) -> Finding:
    place = "consumequeue/T/3"
    return Finding(
        Severity.DAMAGE, "queue", place, reason, physical_offset, "T", 3, queue_offset, count
    )


def differences(found: list[bytes], expected: list[bytes]) -> list[Finding]:
    fs = MemoryFileSystem()
    for directory, entries in (("/found", found), ("/expected", expected)):
        fs.make_directories(directory)
        data = b"".join(entries)
        for start in range(0, len(data), FILE_BYTES):
            piece = data[start : start + FILE_BYTES].ljust(FILE_BYTES, b"\0")
            write_file(fs, f"{directory}/{start:020d}", piece)
    return compare_queue(fs, KEY, "/found", "/expected", FILE_BYTES, LOG).findings


class Trimmed(MemoryFileSystem):
    """Another process removes each file below /found as soon as it was checked."""

    def is_file(self, path: str) -> bool:
        was_there = super().is_file(path)
        if was_there and path.startswith("/found/"):
            self.unlink(path)
        return was_there


def test_a_file_that_is_removed_meanwhile_has_no_entries() -> None:
    """Of a store whose broker runs that is no damage; `verify` leaves it out."""
    fs = Trimmed()
    for directory in ("/found", "/expected"):
        fs.make_directories(directory)
        write_file(fs, f"{directory}/{0:020d}", (A + B).ljust(FILE_BYTES, b"\0"))
    result = compare_queue(fs, KEY, "/found", "/expected", FILE_BYTES, LOG)
    assert result == (0, [difference(0, 2, 100, "no entry")])


@pytest.mark.parametrize(
    ("found", "expected", "wanted"),
    [
        ([A, NONE, NONE], [A, B, C], (1, 2, 200, "no entry")),
        ([], [A], (0, 1, 100, "no entry")),
        ([A, B], [A], (1, 1, 200, "entries of no record")),
        ([A, entry(1000)], [A], (1, 1, 1000, "entries of records after the log's end")),
        ([A, B], [A, C], (1, 1, 300, "another entry than the record's")),
        ([entry(100, tags_code=8)], [A], (0, 1, 100, "another entry than the record's")),
        ([entry(100, size=11)], [A], (0, 1, 100, "another entry than the record's")),
        # A place where the log has a record is no place of one that it has no more.
        ([entry(10)], [A], (0, 1, 100, "another entry than the record's")),
        ([A] * 6, [A] * 5, (5, 1, 100, "entries of no record")),
    ],
)
def test_a_difference(
    found: list[bytes], expected: list[bytes], wanted: tuple[int, int, int, str]
) -> None:
    assert differences(found, expected) == [difference(*wanted)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([A, B, C], [A, B, C]),
        # Of messages that the log has no more, and which a rebuild pads.
        ([entry(10), entry(50), A], [PADDING_ENTRY, PADDING_ENTRY, A]),
        ([entry(10)], []),
        # The address of an extension unit says nothing by itself.
        ([entry(100, tags_code=-(1 << 63) + 34)], [A]),
        ([], []),
    ],
)
def test_no_difference(found: list[bytes], expected: list[bytes]) -> None:
    assert differences(found, expected) == []


LOST, WRONG = (
    "no extension unit where the entry points to",
    "another extension unit than the record's",
)
UNIT = (7, 5, b"")  # of A: tags code, store time, bitmap


@pytest.mark.parametrize(
    ("found", "expected", "reason"),
    [
        (UNIT, UNIT, None),
        (None, UNIT, LOST),
        (7, UNIT, None),  # written while there were no units
        (8, UNIT, WRONG),
        (UNIT, 7, None),
        ((8, 5, b""), UNIT, WRONG),
        ((7, 6, b""), UNIT, WRONG),
        ((7, 5, b"\x03"), (7, 5, b"\x01"), None),  # of a filter that is gone since
        ((7, 5, b"\x02"), (7, 5, b"\x01"), WRONG),
        ((7, 5, b""), (7, 5, b"\x01"), None),
        ((7, 5, b"\x02\0"), (7, 5, b"\x01"), None),  # no pull asks a bitmap of another length
    ],
)
def test_what_an_entry_points_to(
    found: tuple[int, int, bytes] | int | None,
    expected: tuple[int, int, bytes] | int | None,
    reason: str | None,
) -> None:
    fs = MemoryFileSystem()
    sides = []
    for side, unit in (("found", found), ("expected", expected)):
        writer = ConsumeQueueExtWriter(
            fs,
            f"/{side}_ext",
            file_bytes=64,
            open_files=OpenFiles(2),
            make_file=lambda path, size_bytes: write_file(fs, path, bytes(size_bytes)),
        )
        writer.recover(None)
        tags_code = unit if isinstance(unit, int) else writer.put(*(unit or UNIT))
        assert tags_code is not None
        if unit is not None:
            writer.write_pending()
        data = entry(100, tags_code=tags_code) + entry(50, tags_code=tags_code)
        write_file(fs, f"/{side}/{0:020d}", data.ljust(FILE_BYTES, b"\0"))
        sides.append(writer)
    units = Extensions(*sides)
    result = compare_queue(fs, KEY, "/found", "/expected", FILE_BYTES, LOG, units)
    assert result.findings == ([] if reason is None else [difference(0, 1, 100, reason)])


def test_entries_are_counted_by_file() -> None:
    fs = MemoryFileSystem()
    fs.make_directories("/found")
    write_file(fs, "/found/" + "0" * 20, (A + B).ljust(FILE_BYTES, b"\0"))
    assert compare_queue(fs, KEY, "/found", "/found", FILE_BYTES, LOG) == (2, [])
