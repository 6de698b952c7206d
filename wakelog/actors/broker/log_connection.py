"""LogConnection: a connection over which the log goes to a slave or a member of the group.

Its loop reads what the other end says, and sends what is new at the log's end. A thread reads and
sends for an end that lacks more than `LOOP_BYTES_MAX`, and what is not in the page cache. After
`JOB_BYTES` it gives the connection back, and the loop says what comes next after its other work. So
one that fetches an old log delays neither producers nor others at the log's end.

Invariants:
- While a thread sends, the loop sends nothing, and the descriptor of the socket stays open.
- What `pieces` yields is sent in that order, once, and nothing that was not written yet.
- A thread reads through a descriptor of its own: the loop may close the others meanwhile.

Source: org.apache.rocketmq.store.ha.HAConnection (4.9.3).
"""

import asyncio
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

from wakelog.broker.replication.shipping import Piece
from wakelog.storage.errors import StoreError
from wakelog.storage.log.mapped_file import MappedFile

LOOP_BYTES_MAX: Final = 256 << 10
"""What the loop reads and sends at once to one end. It is some turns of producers."""

JOB_BYTES: Final = 4 << 20
"""What a thread reads and sends before the loop is asked for more. With less, both wait for each
other too often."""

READ_BYTES: Final = 256 << 10
"""What a thread reads at once."""

AHEAD_BYTES: Final = 4 << 20
"""What the disk is asked for behind what was not in the page cache."""

PIECES_MAX: Final = 256
"""How many frames are sent at once: `haTransferBatchSize` may be small."""

FULL_SECONDS_MAX: Final = 0.005
"""How long a thread waits for a full socket. The end that takes much has room again by then."""

THREADS_COUNT: Final = 2
"""Of one server. One may wait for the disk while the other one sends."""

REPORTS_BYTES: Final = 4096
"""What is read of the other end at once."""

Unsent: TypeAlias = "tuple[bytes | memoryview, Sequence[Piece]]"
"""What a full socket leaves: bytes of frames, and pieces that were not read."""

_of_thread = threading.local()


class LogSource:
    """Where the connections of one server get the log. One loop's thread.

    sent_bytes: bytes of the log that were sent.
    """

    def __init__(self, segment_bytes: int, find: Callable[[int], MappedFile | None]) -> None:
        """Read nothing yet. find: returns the segment of an offset, None if it was removed."""
        self.segment_bytes, self._find = segment_bytes, find
        self.sent_bytes = 0
        # Any host may connect, and is refused only then. So connections have no buffers.
        self._buffer = memoryview(bytearray(LOOP_BYTES_MAX))
        self._threads = ThreadPoolExecutor(THREADS_COUNT, thread_name_prefix="ship-log")
        self._jobs: set[asyncio.Future[Unsent]] = set()

    def find(self, offset: int) -> MappedFile:
        """Return the segment of an offset. Raises: SegmentGone."""
        file = self._find(offset)
        if file is None:
            raise SegmentGone(offset)
        return file

    def read(self, offset: int, size_bytes: int) -> memoryview | None:
        """Return bytes of one segment until the next call; None if a thread is to read them.

        Raises: StoreError if they are not there any more, or cannot be read.
        """
        buffer = self._buffer[:size_bytes]
        if not size_bytes:
            return buffer
        file = self.find(offset)
        if size_bytes > LOOP_BYTES_MAX or not file.read_into_nowait(
            buffer, file.position_of(offset)
        ):
            return None
        return buffer

    def run(self, job: Callable[[], Unsent]) -> asyncio.Future[Unsent]:
        """Have a thread send something."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, job)
        self._jobs.add(running)
        running.add_done_callback(self._jobs.discard)
        return running

    async def close(self) -> None:
        """End the threads. The connections are closed: what these send ends soon."""
        if self._jobs:
            await asyncio.wait(self._jobs)
        self._threads.shutdown()


class LogConnection:
    """See the module. One loop's thread."""

    def __init__(self, opened: socket.socket, address: str, source: LogSource) -> None:
        """Take a socket; nothing is read or sent until `begin`."""
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = address
        self._socket: socket.socket | None = opened
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._unsent: bytes | memoryview = b""
        self._next: Sequence[Piece] = ()  # that were taken, and are neither read nor sent
        self._job: asyncio.Future[Unsent] | None = None

    def received(self, data: bytes) -> None:
        """Take what the other end says. Raises: StoreError, which ends the connection."""
        raise NotImplementedError

    def pieces(self) -> Iterator[Piece]:
        """Yield what to send now; what was yielded counts as sent."""
        raise NotImplementedError

    def failed(self, cause: str) -> None:
        """Note that the log could not be read; `closed` follows."""
        raise NotImplementedError

    def closed(self) -> None:
        """Note the end of the connection, once."""
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """Whether it was not closed, by either end."""
        return self._socket is not None

    def begin(self) -> None:
        """Read and send until `close`."""
        assert self._socket is not None
        self._loop.add_reader(self._socket, self._read)
        self.ship()

    def close(self) -> None:
        """Close it now."""
        opened, self._socket = self._socket, None
        if opened is None:
            return
        self._loop.remove_reader(opened)
        self._loop.remove_writer(opened)
        if self._job is None:
            opened.close()
        else:
            with suppress(OSError):  # it is not connected any more
                opened.shutdown(socket.SHUT_RDWR)
            self._job.add_done_callback(lambda _: opened.close())
        self.closed()

    def send(self, data: bytes) -> None:
        """Send something before the first piece of the log."""
        assert self._job is None and not self._next
        if self._unsent:
            self._unsent = bytes(self._unsent) + data
        else:
            self._send([data])

    def ship(self) -> None:
        """Send what there is, as far as the socket takes it. The rest follows by itself."""
        while self.is_open and self._job is None and not (self._unsent or self._next):
            self._next = self._take_pieces()
            if not self._next:
                return
            size_bytes = sum(piece.size_bytes for piece in self._next)
            self._source.sent_bytes += size_bytes
            try:
                read = self._source.read(self._next[0].offset, size_bytes)
            except StoreError as error:
                self._fail(error)
                return
            if read is None:
                self._send_in_thread()
                return
            parts, self._next = _frames(self._next, read), ()
            self._send(parts)

    def _take_pieces(self) -> list[Piece]:
        """Return the next pieces, one behind the other in one segment."""
        found: list[Piece] = []
        size_bytes = 0
        for piece in self.pieces():
            found.append(piece)
            size_bytes += piece.size_bytes
            is_last = not (piece.offset + piece.size_bytes) % self._source.segment_bytes
            if is_last or size_bytes >= JOB_BYTES or len(found) == PIECES_MAX:
                break
        return found

    def _read(self) -> None:
        opened = self._socket
        if opened is None:
            return
        try:
            data = opened.recv(REPORTS_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        try:
            self.received(data)
        except StoreError as error:
            self._fail(error)

    def _send(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send as much as the socket takes, and the rest later."""
        opened = self._socket
        assert opened is not None
        try:
            self._unsent = _send(opened, parts)
        except OSError:
            self.close()
            return
        if self._unsent:
            self._loop.add_writer(opened, self._send_in_thread)

    def _send_in_thread(self) -> None:
        """Have a thread send what is unsent, and the pieces."""
        opened, unsent, pieces = self._socket, self._unsent, self._next
        if opened is None or self._job is not None:
            return
        self._loop.remove_writer(opened)
        try:
            sized = next((piece for piece in pieces if piece.size_bytes), None)
            file = None if sized is None else self._source.find(sized.offset)
        except StoreError as error:
            self._fail(error)
            return
        self._job = self._source.run(partial(_send_apart, opened, unsent, file, pieces))
        self._job.add_done_callback(self._end_job)

    def _end_job(self, job: asyncio.Future[Unsent]) -> None:
        self._job = None
        opened = self._socket
        if opened is None:
            job.exception()
            return
        try:
            self._unsent, self._next = job.result()
        except StoreError as error:
            self._fail(error)
        except OSError:
            self.close()
        else:
            if self._unsent or self._next:
                self._loop.add_writer(opened, self._send_in_thread)
            else:
                self.ship()

    def _fail(self, error: StoreError) -> None:
        self.failed(str(error))
        self.close()


class SegmentGone(StoreError):
    """The segment was removed before it was sent."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the segment of {offset} was removed before it was sent")


def _frames(pieces: Sequence[Piece], read: memoryview) -> list[bytes | memoryview]:
    """Return headers and bytes of pieces, in turns."""
    parts: list[bytes | memoryview] = []
    begin = 0
    for piece in pieces:
        parts += piece.header, read[begin : begin + piece.size_bytes]
        begin += piece.size_bytes
    return parts


def _send(opened: socket.socket, parts: Sequence[bytes | memoryview]) -> bytes | memoryview:
    """Send as much as the socket takes, and return the rest. Raises: OSError."""
    try:
        sent = opened.sendmsg(parts)
    except BlockingIOError:
        sent = 0
    is_all = sent == sum(map(len, parts))
    return b"" if is_all else memoryview(b"".join(parts))[sent:]


def _send_apart(
    opened: socket.socket,
    unsent: bytes | memoryview,
    file: MappedFile | None,
    pieces: Sequence[Piece],
) -> Unsent:
    """Send in a thread, until the socket is full; return what it left.

    file: the segment of the pieces, None if they have no bytes. Raises: StoreError, OSError.
    """
    end_seconds = time.monotonic() + FULL_SECONDS_MAX
    if unsent:
        unsent = _send_on(opened, [unsent], end_seconds)
    apart = None if file is None else file.apart()
    try:
        while pieces and not unsent:
            batch = _batch(pieces)
            pieces = pieces[len(batch) :]
            read = _read_apart(apart, batch)
            unsent = _send_on(opened, _frames(batch, read), end_seconds)
    finally:
        if apart is not None:
            apart.release()
    return unsent, pieces


def _send_on(
    opened: socket.socket, parts: Sequence[bytes | memoryview], end_seconds: float
) -> bytes | memoryview:
    """Send, and wait for a full socket until a time; return the rest. Raises: OSError."""
    unsent = _send(opened, parts)
    while unsent:
        left_seconds = end_seconds - time.monotonic()
        poll = select.poll()
        poll.register(opened, select.POLLOUT)
        if left_seconds <= 0 or not poll.poll(left_seconds * 1000):
            break
        unsent = _send(opened, [unsent])
    return unsent


def _batch(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """Return the first pieces, as many as are read at once."""
    size_bytes = 0
    for number, piece in enumerate(pieces):
        size_bytes += piece.size_bytes
        if size_bytes > READ_BYTES:
            assert number > 0, piece.size_bytes
            return pieces[:number]
    return pieces


def _read_apart(file: MappedFile | None, pieces: Sequence[Piece]) -> memoryview:
    """Read the bytes of pieces into the thread's buffer. Raises: StoreError."""
    if not hasattr(_of_thread, "buffer"):
        _of_thread.buffer = memoryview(bytearray(READ_BYTES))
    size_bytes, offset = sum(piece.size_bytes for piece in pieces), pieces[0].offset
    read: memoryview = _of_thread.buffer[:size_bytes]
    if file is None or not size_bytes:
        return read
    position = file.position_of(offset)
    if not file.read_into_nowait(read, position):
        if file.read_into(read, position) < size_bytes:
            raise SegmentGone(offset)
        if position + size_bytes < file.size_bytes:
            file.read_ahead(position + size_bytes, AHEAD_BYTES)
    return read
