"""The short look at a queue agrees with the closer one, or asks for it; it writes nothing."""

import random
from pathlib import Path

import pytest

from tests.fakes.logs import write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.paths import offset_name
from wakelog.storage.queue.consume_queue_writer import ConsumeQueueWriter
from wakelog.storage.queue.entries import ENTRY, PADDING_ENTRY
from wakelog.storage.queue.quick_end import quick_end

QUEUE = "/queues/T/0"
FILE_ENTRIES = 40
FILE_BYTES = FILE_ENTRIES * ENTRY.size
SIZE = 100
EMPTY = bytes(ENTRY.size)


def laid_out(entries: list[bytes], first: int = 0) -> MemoryFileSystem:
    """Lay entries into files, the first at a number of files."""
    fs = MemoryFileSystem()
    fs.make_directories(QUEUE)
    data = b"".join(entries)
    for begin in range(0, len(data), FILE_BYTES):
        content = data[begin : begin + FILE_BYTES].ljust(FILE_BYTES, b"\0")
        write_file(fs, f"{QUEUE}/{offset_name(first * FILE_BYTES + begin)}", content)
    return fs


def sound(count: int) -> list[bytes]:
    return [ENTRY.pack((i + 1) * SIZE, SIZE, i) for i in range(count)]


def full_check(fs: FileSystem, durable: int | None) -> tuple[int, int]:
    """Return what the writer finds: the next queue offset, and the end of the last record."""
    queue = ConsumeQueueWriter(
        fs,
        QUEUE,
        file_bytes=FILE_BYTES,
        open_files=OpenFiles(),
        make_file=lambda path, size_bytes: None,
    )
    queue.recover(after_crash=durable is not None, durable=durable or 0)
    return queue.max_queue_offset, queue.max_physical_offset


@pytest.mark.parametrize("count", [1, 2, 39, 40, 41, 79, 120])
@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("durable", [None, 1 << 40])
def test_a_plain_queue_needs_no_full_check(count: int, first: int, durable: int | None) -> None:
    fs = laid_out(sound(count), first)
    found = quick_end(fs, QUEUE, FILE_BYTES, durable)
    assert found is not None
    assert (found.queue_offset, found.max_physical_offset) == full_check(fs, durable)
    assert found.queue_offset == first * FILE_ENTRIES + count


@pytest.mark.parametrize("durable", [None, 1 << 40])
def test_gaps_that_were_filled_are_plain(durable: int | None) -> None:
    """With padding at the begin, and with the record behind the gap elsewhere."""
    entries = sound(9)
    fs = laid_out([*[PADDING_ENTRY] * 4, *entries[:6], *[entries[7]] * 3, entries[8]])
    found = quick_end(fs, QUEUE, FILE_BYTES, durable)
    assert found is not None
    assert (found.queue_offset, found.max_physical_offset) == full_check(fs, durable) == (14, 1000)


@pytest.mark.parametrize("seed", range(300))
def test_both_checks_agree(seed: int) -> None:
    """Missing, torn, lower and repeated entries lie near the end, where a crash leaves them."""
    chance = random.Random(seed)
    count = chance.randrange(2, 3 * FILE_ENTRIES)
    entries = sound(count)
    for place in range(max(1, count - 5), count):
        torn = ENTRY.pack(0, SIZE, 0), ENTRY.pack(SIZE, SIZE, 0), ENTRY.pack(-5, SIZE, 0)
        if chance.random() < 0.4:
            entries[place] = chance.choice([EMPTY, *torn, entries[place - 1]])
    durable = chance.choice([None, (count - chance.randrange(6)) * SIZE, 1 << 40])
    fs = laid_out(entries)
    found = quick_end(fs, QUEUE, FILE_BYTES, durable)
    if found is not None:
        assert (found.queue_offset, found.max_physical_offset) == full_check(fs, durable)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [EMPTY],
        [*sound(40), EMPTY],  # a file that is made and not written
        [PADDING_ENTRY, PADDING_ENTRY],
        [*sound(5), EMPTY, ENTRY.pack(700, SIZE, 0)],
        [*sound(5), ENTRY.pack(0, SIZE, 0)],  # its first sector was never written
        [*sound(5), ENTRY.pack(900, 0, 7)],
        [*sound(5), ENTRY.pack(-9, SIZE, 7)],
    ],
)
def test_what_is_not_plain_asks_for_the_full_check(entries: list[bytes]) -> None:
    assert quick_end(laid_out(entries), QUEUE, FILE_BYTES, None) is None


def test_an_entry_that_was_not_durable_asks_for_it() -> None:
    fs = laid_out(sound(5))
    assert quick_end(fs, QUEUE, FILE_BYTES, 6 * SIZE) is not None
    assert quick_end(fs, QUEUE, FILE_BYTES, 6 * SIZE - 1) is None


def test_files_that_are_not_in_order_ask_for_it() -> None:
    fs = laid_out(sound(100))
    fs.unlink(f"{QUEUE}/{offset_name(FILE_BYTES)}")
    assert quick_end(fs, QUEUE, FILE_BYTES, None) is None
    fs = laid_out(sound(100))
    write_file(fs, f"{QUEUE}/{offset_name(0)}", bytes(FILE_BYTES - 1))
    assert quick_end(fs, QUEUE, FILE_BYTES, None) is None
    assert quick_end(laid_out(sound(9)), QUEUE, 2 * FILE_BYTES, None) is None
    fs = laid_out(sound(9))
    write_file(fs, f"{QUEUE}/notes", b"")
    assert quick_end(fs, QUEUE, FILE_BYTES, None) is None
    assert quick_end(fs, "/elsewhere", FILE_BYTES, None) is None


def test_it_reads_an_entry_and_no_hole() -> None:
    """A queue of one message has a file of 6 MB; thousands of them are looked at in each start."""
    fs, bytes_read = MemoryFileSystem(), 0
    real_pread = fs.pread

    def pread(fd: int, length: int, position: int) -> bytes:
        nonlocal bytes_read
        data = real_pread(fd, length, position)
        bytes_read += len(data)
        return data

    fs.pread = pread  # type: ignore[method-assign]
    fs.make_directories(QUEUE)
    write_file(fs, f"{QUEUE}/{offset_name(0)}", sound(1)[0].ljust(6_000_000, b"\0"))
    fs.calls.clear()
    assert quick_end(fs, QUEUE, 6_000_000, 1 << 40) is not None
    assert bytes_read < 10_000
    assert fs.calls["open"] == fs.calls["list_directory"] == 1
    assert not any(fs.calls[name] for name in ("pwrite", "datasync", "sync", "sync_directory"))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(sound(1)[0].ljust(FILE_BYTES, b"\0"))
    (tmp_path / "queue").mkdir()
    (tmp_path / "queue" / offset_name(0)).symlink_to(outside)
    assert quick_end(FileSystem(), str(tmp_path / "queue"), FILE_BYTES, None) is None
