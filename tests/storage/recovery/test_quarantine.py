"""What is cut from the log is kept, as long as it is not zero."""

import errno
from collections.abc import Iterable

import pytest

from tests.fakes.logs import read_file, write_file
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.fakes.stores import dispatch, open_store
from tests.storage.recovery.test_steps import BYTES as SEGMENT_BYTES
from tests.storage.recovery.test_steps import CONFIG, KEY, CrashedStore
from wakelog.storage.errors import StoreFailed, StoreFull
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.recovery import quarantine
from wakelog.storage.recovery.quarantine import (
    BLOCK_BYTES,
    copy_to_quarantine,
    measure_quarantine,
)

BYTES = 4 * BLOCK_BYTES
NOW_MS = 1234


def segments(fs: MemoryFileSystem, contents: Iterable[bytes]) -> list[MappedFile]:
    files = []
    for i, content in enumerate(contents):
        path = f"/store/commitlog/{i * BYTES:020d}"
        write_file(fs, path, content.ljust(BYTES, b"\0"))
        files.append(MappedFile(fs, path, start_offset=i * BYTES, size_bytes=BYTES))
    return files


def test_each_cut_segment_gives_one_file(fs: MemoryFileSystem) -> None:
    files = segments(fs, [b"kept" + b"cut", b"", b"also cut"])
    pieces = copy_to_quarantine(fs, "/store", files, 4, NOW_MS)
    assert [piece[:2] for piece in pieces] == [(4, 3), (2 * BYTES, 8)]
    names = [f"{4:020d}.1234", f"{2 * BYTES:020d}.1234"]
    assert fs.list_directory("/store/wakelog.quarantine") == names
    assert [read_file(fs, piece.path) for piece in pieces] == [b"cut", b"also cut"]


def test_a_copy_and_its_name_are_durable_before_anything_is_cut(fs: MemoryFileSystem) -> None:
    files = segments(fs, [b"kept" + b"cut", b"also cut"])
    copy_to_quarantine(fs, "/store", files, 4, NOW_MS)
    assert (fs.calls["sync"], fs.calls["sync_directory"]) == (2, 1)
    for name in ("sync", "sync_directory"):
        fs.fail(name)
        with pytest.raises(StoreFailed):
            copy_to_quarantine(fs, "/store", files, 4, NOW_MS)


def test_zeros_make_no_file(fs: MemoryFileSystem) -> None:
    files = segments(fs, [b"kept", b""])
    assert copy_to_quarantine(fs, "/store", files, 4, NOW_MS) == ()
    assert not fs.exists("/store/wakelog.quarantine")


class ReadingAhead(MemoryFileSystem):
    """What was read, and the next block, counts as data, as in an allocated file."""

    def __init__(self) -> None:
        super().__init__()
        self.positions: list[int] = []

    def pread(self, fd: int, length: int, position: int) -> bytes:
        self.positions.append(position)
        return super().pread(fd, length, position)

    def next_data(self, fd: int, position: int) -> int | None:
        if any(at <= position < at + 2 * BLOCK_BYTES for at in self.positions):
            return position
        return super().next_data(fd, position)


def test_what_was_never_written_is_not_read() -> None:
    fs = ReadingAhead()
    files = segments(fs, [b"kept" + b"cut"])
    [piece] = copy_to_quarantine(fs, "/store", files, 4, NOW_MS)
    assert read_file(fs, piece.path) == b"cut"
    assert fs.positions == [4, 0]  # one block of the segment, and what this test read


def test_places_inside_a_piece_are_kept(fs: MemoryFileSystem) -> None:
    content = b"kept" + bytes(BLOCK_BYTES * 2) + b"far" + bytes(10) + b"end" + bytes(5)
    (piece,) = copy_to_quarantine(fs, "/store", segments(fs, [content]), 4, NOW_MS)
    assert read_file(fs, piece.path) == content[4:].rstrip(b"\0")
    assert piece.size_bytes == len(content) - 4 - 5


def test_without_room_nothing_may_be_cut(fs: MemoryFileSystem) -> None:
    files = segments(fs, [b"keptcut"])
    fs.fail("pwrite", number=errno.ENOSPC)
    with pytest.raises(StoreFull):
        copy_to_quarantine(fs, "/store", files, 4, NOW_MS)


@pytest.mark.parametrize("clean", [True, False])
def test_a_cut_can_be_undone_by_hand(clean: bool) -> None:
    """As `docs/recovery.md` says, whether the broker was stopped in order meanwhile or killed."""
    crashed = CrashedStore()
    fs, torn = crashed.fs, crashed.places[21]
    sound = read_file(fs, f"/store/commitlog/{2 * SEGMENT_BYTES:020d}")
    crashed.overwrite(torn, b"\x55" * 100)
    store = open_store(fs, CONFIG)
    pieces = store.recovery.quarantined
    dispatch(store, fs)
    store.close(dispatch_behind_bytes=0 if clean else 1)
    for piece in pieces:
        start = piece.physical_offset - piece.physical_offset % SEGMENT_BYTES
        path = f"/store/commitlog/{start:020d}"
        if not fs.exists(path):
            write_file(fs, path, bytes(SEGMENT_BYTES))
        crashed.overwrite(piece.physical_offset, read_file(fs, piece.path))
    crashed.overwrite(torn, sound[torn % SEGMENT_BYTES :][:100])
    report = open_store(fs, CONFIG).recovery
    assert (report.log_end, report.queue_offsets) == (crashed.end, {KEY: 30})
    assert (report.damaged, report.dispatch_from <= torn) == ((), True)


def test_what_is_kept_aside_is_measured_with_its_folders(fs: MemoryFileSystem) -> None:
    assert measure_quarantine(fs, "/store") == (0, 0)
    for name, data in (("1.5", b"cut"), ("replaced.7/consumequeue/t/0", b"queue")):
        write_file(fs, f"/store/wakelog.quarantine/{name}", data)
    assert measure_quarantine(fs, "/store") == (2, 8)
    assert measure_quarantine(fs, "/elsewhere") == (0, 0)


def test_a_bounded_number_of_names_is_measured(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "MEASURED_NAMES_MAX", 4)
    for number in range(9):
        write_file(fs, f"/store/wakelog.quarantine/{number}", b"x")
    assert measure_quarantine(fs, "/store") == (3, 3)
