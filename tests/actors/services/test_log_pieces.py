"""What is shipped of the log: at once from memory, by a thread from the disk."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.services import log_pieces
from wakelog.actors.services.log_pieces import LogPieces
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import MappedFile

BYTES = bytes(range(256)) * 64


class ColdFileSystem(FileSystem):
    """Has nothing in memory while a test wants it. reads: positions and lengths that may wait."""

    is_cold = True

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[int, int]] = []

    def pread_into_nowait(self, fd: int, buffer: bytearray | memoryview, position: int) -> bool:
        return not self.is_cold and super().pread_into_nowait(fd, buffer, position)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        self.reads.append((position, length))
        return super().pread(fd, length, position)


class Shipped:
    """The log of one segment, and how often a block has come. end: of the log."""

    def __init__(self, folder: Path) -> None:
        path = folder / "segment"
        path.write_bytes(BYTES)
        self.fs, self.end = ColdFileSystem(), len(BYTES)
        self.file: MappedFile | None = MappedFile(
            self.fs, str(path), start_offset=0, size_bytes=len(BYTES)
        )
        self.threads = ThreadPoolExecutor(1)
        self.read = asyncio.Event()
        self.pieces = LogPieces(lambda _: self.file, self.threads, self.read.set)

    def fill(self, offset: int, length: int) -> bytes | None:
        """Return a piece, None if it comes later."""
        buffer = bytearray(length)
        is_there = self.pieces.fill(memoryview(buffer), offset, self.end)
        return bytes(buffer) if is_there else None

    async def block(self) -> None:
        """Wait for the thread."""
        await self.read.wait()
        self.read.clear()


@on_loop
async def test_what_is_in_memory_comes_at_once(tmp_path: Path) -> None:
    log = Shipped(tmp_path)
    log.fs.is_cold = False
    assert log.fill(3, 1000) == BYTES[3:1003]
    assert log.fs.reads == []


@on_loop
async def test_what_is_on_the_disk_is_read_by_a_thread_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pieces, "BLOCK_BYTES", 4096)
    log = Shipped(tmp_path)
    assert log.fill(100, 1000) is None
    assert log.fill(100, 1000) is None, "it is under way"
    await log.block()
    pieces = [log.fill(100 + begin, 1024) for begin in range(0, 4096, 1024)]
    assert b"".join(piece or b"" for piece in pieces) == BYTES[100:4196]
    assert log.fill(4196, 5000) is None, "longer than a block"
    await log.block()
    assert log.fill(4196, 5000) == BYTES[4196:9196]
    assert log.fs.reads == [(100, 4096), (4196, 5000)]


@on_loop
async def test_a_block_has_nothing_that_was_not_written_when_it_was_read(tmp_path: Path) -> None:
    log = Shipped(tmp_path)
    log.end = 1500
    assert log.fill(1000, 500) is None
    await log.block()
    assert log.fill(1000, 500) == BYTES[1000:1500]
    log.end = 2000
    assert log.fill(1400, 600) is None, "a part of it was read too early"
    await log.block()
    assert log.fill(1400, 600) == BYTES[1400:2000]
    assert log.fs.reads == [(1000, 500), (1400, 600)]


@on_loop
async def test_a_segment_that_is_gone(tmp_path: Path) -> None:
    log = Shipped(tmp_path)
    assert log.fill(0, 10) is None
    await log.block()
    (tmp_path / "segment").unlink()
    assert log.fill(0, 10) == BYTES[:10], "it was read before"
    log.pieces = LogPieces(lambda _: log.file, log.threads, log.read.set)
    assert log.fill(0, 10) is None
    await log.block()
    for _ in range(2):
        with pytest.raises(StoreError):
            log.fill(0, 10)
    log.file = None
    with pytest.raises(StoreError, match="removed before it was sent"):
        LogPieces(lambda _: None, log.threads, log.read.set).fill(memoryview(b""), 5, 5)
