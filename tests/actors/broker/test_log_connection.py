"""A connection that ships the log: by the loop at its end, by a thread what is old or much."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from tests.actors.bounded import on_loop
from wakelog.actors.broker import log_connection
from wakelog.actors.broker.log_connection import LogConnection, LogSource
from wakelog.broker.replication.shipping import Piece
from wakelog.protocol.ha_frames import FrameReader, encode_header
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import MappedFile

SEGMENT_BYTES = 1 << 22
FRAME_BYTES = 32 << 10
BYTES = bytes(range(251)) * (SEGMENT_BYTES // 251 + 1)


@pytest.fixture(autouse=True)
def _small_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_connection, "JOB_BYTES", 1 << 20)


class ColdFileSystem(FileSystem):
    """Notes who reads what, and has nothing in memory while a test wants it."""

    is_cold = False

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[bool, int, int]] = []  # whether in a thread, begin, size
        self.ahead: list[tuple[int, int]] = []
        self.may_read = threading.Event()
        self.may_read.set()

    def pread_into_nowait(self, fd: int, buffer: bytearray | memoryview, position: int) -> bool:
        if self.is_cold or super().pread_into(fd, buffer, position) < len(buffer):
            return False
        self._note(position, len(buffer))
        return True

    def pread_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        self.may_read.wait()
        self._note(position, len(buffer))
        return super().pread_into(fd, buffer, position)

    def read_ahead(self, fd: int, length: int, position: int) -> None:
        self.ahead.append((position, length))

    def _note(self, position: int, size_bytes: int) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        self.reads.append((not is_main, position, size_bytes))


class Shipped(LogConnection):
    """Ships a log up to `end`, and notes what it is told."""

    position = end = 0
    frame_bytes = FRAME_BYTES

    def __init__(self, opened: socket.socket, source: LogSource) -> None:
        super().__init__(opened, "slave", source)
        self.said: list[str] = []

    def pieces(self) -> Iterator[Piece]:
        while self.position < self.end:
            segment_end = (self.position // SEGMENT_BYTES + 1) * SEGMENT_BYTES
            size = min(self.end, segment_end, self.position + self.frame_bytes) - self.position
            piece = Piece(encode_header(self.position, size), self.position, size)
            self.position += size
            yield piece

    def grow(self, end: int) -> None:
        self.end = end
        self.ship()

    def received(self, data: bytes) -> None:
        self.said.append(data.decode())
        if data == b"bad":
            raise StoreFailed("log", "read", OSError(5, "Input/output error"))

    def failed(self, cause: str) -> None:
        self.said.append("failed")

    def closed(self) -> None:
        self.said.append("closed")


class Pair:
    """A connection with its other end, over a log of two segments that are the same file."""

    def __init__(self, folder: Path) -> None:
        path = folder / "segment"
        path.write_bytes(BYTES[:SEGMENT_BYTES])
        self.fs = ColdFileSystem()
        self.files = [
            MappedFile(self.fs, str(path), start_offset=begin, size_bytes=SEGMENT_BYTES)
            for begin in (0, SEGMENT_BYTES)
        ]
        self.source = LogSource(SEGMENT_BYTES, self.find)
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.end = socket.create_connection(server.getsockname())
            opened, _ = server.accept()
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        self.end.setblocking(False)
        self._reader, self.log = FrameReader(), bytearray()
        self.connection = Shipped(opened, self.source)

    def find(self, offset: int) -> MappedFile | None:
        index = offset // SEGMENT_BYTES
        return self.files[index] if index < len(self.files) else None

    async def read(self, size_bytes: int) -> None:
        """Read until the other end has so much of the log."""
        loop = asyncio.get_running_loop()
        while len(self.log) < size_bytes:
            data = await loop.sock_recv(self.end, 1 << 18)
            assert data, "closed"
            for frame in self._reader.read(data):
                assert frame.offset == len(self.log)
                self.log += frame.data


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[Pair]:
    pair = Pair(folder)
    with closing(pair.end):
        pair.connection.begin()
        try:
            yield pair
        finally:
            pair.fs.may_read.set()
            pair.connection.close()
            await pair.source.close()


def test_pieces_that_fill_the_buffer_are_read_at_once() -> None:
    half_bytes = log_connection.READ_BYTES // 2
    halves = [Piece(b"", begin, half_bytes) for begin in (0, half_bytes)]
    whole = Piece(b"", 2 * half_bytes, 2 * half_bytes)
    assert log_connection._batch([whole]) == [whole]
    assert log_connection._batch([*halves, whole]) == halves


@on_loop
async def test_the_loop_sends_what_is_new_at_the_end(tmp_path: Path) -> None:
    async with connected(tmp_path) as pair:
        pair.connection.grow(1000)
        pair.connection.grow(1000 + FRAME_BYTES)
        await pair.read(1000 + FRAME_BYTES)
        assert pair.log == BYTES[: len(pair.log)]
        assert pair.fs.reads == [(False, 0, 1000), (False, 1000, FRAME_BYTES)]
        assert pair.source.sent_bytes == len(pair.log)


@on_loop
async def test_a_thread_sends_much_and_gives_way_in_between(tmp_path: Path) -> None:
    async with connected(tmp_path) as pair:
        size = log_connection.LOOP_BYTES_MAX + 1
        pair.connection.grow(size)
        await pair.read(size)
        assert {is_apart for is_apart, _, _ in pair.fs.reads} == {True}
        while pair.connection._job is not None:
            await asyncio.sleep(0)
        pair.connection.grow(SEGMENT_BYTES)
        assert pair.connection.position == size + log_connection.JOB_BYTES
        await pair.read(SEGMENT_BYTES)
        assert pair.log == BYTES[:SEGMENT_BYTES]


@pytest.mark.parametrize("frame_bytes", [100, FRAME_BYTES, 128 << 10])
@on_loop
async def test_a_slow_end_gets_everything_in_order(tmp_path: Path, frame_bytes: int) -> None:
    async with connected(tmp_path) as pair:
        pair.connection.frame_bytes = frame_bytes
        pair.connection.grow(3 << 20)
        while not pair.connection._unsent:
            await asyncio.sleep(0)
        assert pair.connection.position < 3 << 20
        pair.connection.grow(SEGMENT_BYTES + (1 << 20))
        await pair.read(pair.connection.end)
        assert pair.log == BYTES[:SEGMENT_BYTES] + BYTES[: 1 << 20]


@on_loop
async def test_a_thread_waits_for_the_disk_and_asks_it_for_more(tmp_path: Path) -> None:
    async with connected(tmp_path) as pair:
        pair.fs.is_cold = True
        pair.fs.may_read.clear()
        pair.connection.grow(1000)
        pair.connection.grow(2000)
        assert pair.fs.reads == [], "the loop reads nothing that the thread has not sent"
        pair.fs.may_read.set()
        await pair.read(2000)
        assert pair.log == BYTES[:2000]
        assert pair.fs.reads == [(True, 0, 1000), (True, 1000, 1000)]
        assert [begin for begin, _ in pair.fs.ahead] == [1000, 2000]


@on_loop
async def test_frames_without_bytes_need_no_segment(tmp_path: Path) -> None:
    async with connected(tmp_path) as pair:
        pair.files.clear()
        heartbeat = Piece(encode_header(9, 0), 9, 0)
        pair.connection.pieces = lambda: iter([heartbeat])  # type: ignore[method-assign]
        pair.connection._next = [heartbeat]
        pair.connection._send_in_thread()
        pair.connection.pieces = lambda: iter([])  # type: ignore[method-assign]
        data = await asyncio.get_running_loop().sock_recv(pair.end, 100)
        assert data == heartbeat.header


@pytest.mark.parametrize("is_cold", [False, True])
@on_loop
async def test_a_segment_that_is_gone_ends_it(tmp_path: Path, is_cold: bool) -> None:
    async with connected(tmp_path) as pair:
        pair.fs.is_cold = is_cold
        if is_cold:
            (tmp_path / "segment").unlink()
        else:
            pair.files.clear()
        pair.connection.grow(10)
        while pair.connection.is_open:
            await asyncio.sleep(0)
        assert pair.connection.said == ["failed", "closed"]
        assert await asyncio.get_running_loop().sock_recv(pair.end, 1) == b""


@on_loop
async def test_a_segment_that_is_cut_ends_it(tmp_path: Path) -> None:
    async with connected(tmp_path) as pair:
        pair.fs.is_cold = True
        (tmp_path / "segment").write_bytes(b"short")
        pair.connection.grow(10)
        while pair.connection.is_open:
            await asyncio.sleep(0)
        assert pair.connection.said == ["failed", "closed"]


@on_loop
async def test_a_socket_stays_open_while_a_thread_has_it(tmp_path: Path) -> None:
    """Else the number of its descriptor could be that of another connection by then."""
    async with connected(tmp_path) as pair:
        pair.fs.is_cold = True
        pair.fs.may_read.clear()
        pair.connection.grow(10)
        opened = pair.connection._socket
        assert opened is not None
        pair.connection.close()
        pair.connection.close()
        assert opened.fileno() >= 0 and pair.connection.said == ["closed"]
        assert await asyncio.get_running_loop().sock_recv(pair.end, 1) == b"", "not sent any more"
        pair.fs.may_read.set()
        await pair.source.close()
        assert opened.fileno() < 0


@on_loop
async def test_it_ends_with_the_other_end_and_with_what_cannot_be_taken(tmp_path: Path) -> None:
    async with connected(tmp_path) as pair:
        pair.end.send(b"hello")
        while not pair.connection.said:
            await asyncio.sleep(0)
        pair.end.close()
        while pair.connection.is_open:
            await asyncio.sleep(0)
        assert pair.connection.said == ["hello", "closed"]
    async with connected(tmp_path) as pair:
        pair.end.send(b"bad")
        while pair.connection.is_open:
            await asyncio.sleep(0)
        assert pair.connection.said == ["bad", "failed", "closed"]


@on_loop
async def test_an_answer_goes_before_the_log(tmp_path: Path) -> None:
    async with connected(tmp_path) as pair:
        pair.connection.send(encode_header(0, 0))
        pair.connection._unsent = b""
        pair.connection.grow(5)
        await pair.read(5)
        pair.connection._unsent = b"o"
        pair.connection.send(b"k")
        assert pair.connection._unsent == b"ok"
