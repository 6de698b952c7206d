"""The end of a queue after a crash: what is torn ends it, what was durable before does not."""

import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.paths import offset_name
from wakelog.storage.queue import crash_end as module
from wakelog.storage.queue.crash_end import crash_end
from wakelog.storage.queue.entries import ENTRY, PADDING_ENTRY

FILE_ENTRIES = 10
SIZE = 100


def end_of(entries: list[bytes], durable: int) -> int | None:
    """Lay entries into files of ten, and look."""
    fs = MemoryFileSystem()
    data = b"".join(entries)
    file_bytes = FILE_ENTRIES * ENTRY.size
    for begin in range(0, len(data), file_bytes):
        content = data[begin : begin + file_bytes].ljust(file_bytes, b"\0")
        write_file(fs, f"/queue/{offset_name(begin)}", content)
    files = MappedFileQueue(fs, ("/queue",), file_bytes)
    files.load()
    return crash_end(files.files, durable)


def sound(count: int) -> list[bytes]:
    return [ENTRY.pack((i + 1) * SIZE, SIZE, i) for i in range(count)]


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 29])
@pytest.mark.parametrize("durable", [0, 550, 1 << 40])
def test_the_first_empty_place(count: int, durable: int) -> None:
    assert end_of([*sound(count), bytes(20)], durable) == count


def test_no_place_is_empty() -> None:
    assert end_of(sound(30), 0) is None


EMPTY = bytes(20)
NEGATIVE = ENTRY.pack(-5, SIZE, 0)
TORN = ENTRY.pack(0, SIZE, 0)  # its first sector was never written

FIRST = ENTRY.pack(0, SIZE, 0)
TORN_SHORTER = ENTRY.pack(0, SIZE - 5, 0)
LOWER = ENTRY.pack(3 * SIZE, SIZE, 0)
HIGHER = ENTRY.pack(1 << 40, SIZE, 0)
REPEATED = ENTRY.pack(6 * SIZE, SIZE, 5)


@pytest.mark.parametrize("piece_entries", [3, 10_000])
@pytest.mark.parametrize(
    ("spoilt", "durable", "end"),
    [
        ({4: EMPTY}, 0, 4),
        ({4: EMPTY}, 21 * SIZE, 25),  # records 0 to 19 were durable
        ({4: NEGATIVE, 12: EMPTY}, 21 * SIZE, 25),
        ({4: EMPTY, 22: EMPTY}, 21 * SIZE, 22),
        ({4: EMPTY}, 5 * SIZE, 4),  # those behind it were not durable
        ({4: EMPTY, 5: TORN}, 5 * SIZE, 4),
        ({0: EMPTY}, 21 * SIZE, 0),  # nothing in front says that this was durable
        ({0: TORN, 1: EMPTY, 2: TORN}, 2 * SIZE, 1),
        ({0: PADDING_ENTRY, 4: EMPTY}, 21 * SIZE, 4),
        ({0: PADDING_ENTRY, 1: PADDING_ENTRY}, 0, 25),
        ({4: TORN}, 0, 4),  # a cut that was torn left its size
        ({4: LOWER}, 0, 4),
        ({0: FIRST, 1: TORN_SHORTER}, 0, 1),
        ({3: TORN}, 4 * SIZE, 3),
        ({4: TORN}, 21 * SIZE, 25),
        ({4: HIGHER, 22: LOWER}, 21 * SIZE, 22),
        ({4: REPEATED}, 0, 25),  # a gap is filled with the record behind it
    ],
)
def test_only_what_may_be_torn_ends_it(
    monkeypatch: pytest.MonkeyPatch,
    piece_entries: int,
    spoilt: dict[int, bytes],
    durable: int,
    end: int,
) -> None:
    monkeypatch.setattr(module, "RECOVER_PIECE_BYTES", piece_entries * ENTRY.size)
    entries = [*sound(25), EMPTY]
    for place, entry in spoilt.items():
        entries[place] = entry
    assert end_of(entries, durable) == end


def test_what_was_never_written_is_not_read() -> None:
    """Each of thousands of queues has a file of 6 MB with a few entries."""
    fs = MemoryFileSystem()
    path = f"/queue/{offset_name(0)}"
    write_file(fs, path, sound(1)[0].ljust(6_000_000, b"\0"))
    files = MappedFileQueue(fs, ("/queue",), 6_000_000)
    files.load()
    fs.calls.clear()
    assert crash_end(files.files, 1 << 40) == 1
    assert fs.calls["pread"] == 1
