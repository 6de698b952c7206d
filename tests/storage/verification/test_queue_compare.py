"""Two folders of one queue: which places differ, and in what."""

from __future__ import annotations

import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.queue.consume_queue import ENTRY, PADDING_ENTRY
from wakelog.storage.verification.queue_compare import QueueDifference, Span, compare_queue

FILE_BYTES = 5 * ENTRY.size
LOG = Span(100, 1000)
NONE = bytes(ENTRY.size)


def entry(physical_offset: int, size: int = 10, tags_code: int = 7) -> bytes:
    return ENTRY.pack(physical_offset, size, tags_code)


A, B, C = entry(100), entry(200), entry(300)


def differences(found: list[bytes], expected: list[bytes]) -> list[QueueDifference]:
    fs = MemoryFileSystem()
    for directory, entries in (("/found", found), ("/expected", expected)):
        fs.make_directories(directory)
        data = b"".join(entries)
        for start in range(0, len(data), FILE_BYTES):
            piece = data[start : start + FILE_BYTES].ljust(FILE_BYTES, b"\0")
            write_file(fs, f"{directory}/{start:020d}", piece)
    results = compare_queue(fs, "/found", "/expected", FILE_BYTES, LOG)
    return [result for result in results if not isinstance(result, int)]


@pytest.mark.parametrize(
    ("found", "expected", "difference"),
    [
        ([A, NONE, NONE], [A, B, C], QueueDifference(1, 2, 200, "no entry")),
        ([], [A], QueueDifference(0, 1, 100, "no entry")),
        ([A, B], [A], QueueDifference(1, 1, 200, "entries of no record")),
        (
            [A, entry(1000)],
            [A],
            QueueDifference(1, 1, 1000, "entries of records behind the log's end"),
        ),
        ([A, B], [A, C], QueueDifference(1, 1, 300, "another entry than the record's")),
        (
            [entry(100, tags_code=8)],
            [A],
            QueueDifference(0, 1, 100, "another entry than the record's"),
        ),
        (
            [entry(100, size=11)],
            [A],
            QueueDifference(0, 1, 100, "another entry than the record's"),
        ),
        ([A] * 6, [A] * 5, QueueDifference(5, 1, 100, "entries of no record")),
    ],
)
def test_a_difference(
    found: list[bytes], expected: list[bytes], difference: QueueDifference
) -> None:
    assert differences(found, expected) == [difference]


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


def test_entries_are_counted_by_file() -> None:
    fs = MemoryFileSystem()
    fs.make_directories("/found")
    write_file(fs, "/found/" + "0" * 20, (A + B).ljust(FILE_BYTES, b"\0"))
    results = compare_queue(fs, "/found", "/found", FILE_BYTES, LOG)
    assert list(results) == [2]
