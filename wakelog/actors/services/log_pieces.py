"""LogPieces: what one connection ships of the log, read without holding up the loop that ships.

Bytes that are in the page cache are read at once. Others are read by a thread: a block, and the
disk is asked for the next ones ahead. So a slave that fetches an old log delays no other slave and,
in a group with a register, no producer.

Invariants:
- A block ends where the log ended when it was asked for: what lies behind it is not written yet.
- The thread reads through a descriptor of its own, for the loop may close the others meanwhile.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from wakelog.storage.errors import StoreError
from wakelog.storage.log.mapped_file import MappedFile

BLOCK_BYTES: Final = 1 << 20
"""What the thread reads at once."""

AHEAD_BYTES: Final = 4 << 20
"""What the disk is asked for behind a block."""


class LogPieces:
    """See the module. One loop's thread."""

    def __init__(
        self,
        find: Callable[[int], MappedFile | None],
        threads: Executor,
        when_read: Callable[[], None],
    ) -> None:
        """Read nothing yet.

        find: returns the segment of an offset, None if there is none.
        when_read: called on the loop once a block is there, or cannot be read.
        """
        self._find, self._threads, self._when_read = find, threads, when_read
        self._block_begin, self._block = 0, b""
        self._is_reading = False
        self._failure: BaseException | None = None

    def frame(self, head: bytes, offset: int, size_bytes: int, log_end: int) -> bytearray | None:
        """Return a frame of a head and bytes of one segment; None if `when_read` is called first.

        Raises: StoreError if they are not there any more, or cannot be read.
        """
        frame = bytearray(len(head) + size_bytes)
        frame[: len(head)] = head
        if size_bytes and not self.fill(memoryview(frame)[len(head) :], offset, log_end):
            return None
        return frame

    def fill(self, buffer: memoryview, offset: int, log_end: int) -> bool:
        """Fill a buffer with bytes of one segment; False if `when_read` is called first.

        Raises: StoreError if they are not there any more, or cannot be read.
        """
        assert offset + len(buffer) <= log_end, (offset, len(buffer), log_end)
        if self._is_reading:
            return False
        if self._failure is not None:
            raise self._failure
        begin = offset - self._block_begin
        if 0 <= begin <= len(self._block) - len(buffer):
            buffer[:] = memoryview(self._block)[begin : begin + len(buffer)]
            return True
        file = self._find(offset)
        if file is None:
            raise SegmentGone(offset)
        position = file.position_of(offset)
        if file.read_into_nowait(buffer, position):
            self._block = b""
            return True
        self._is_reading = True
        length = min(max(BLOCK_BYTES, len(buffer)), log_end - offset)
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(self._threads, _read_block, file, position, length)
        reading.add_done_callback(lambda done: self._keep(offset, done))
        return False

    def _keep(self, offset: int, reading: "asyncio.Future[bytes]") -> None:
        self._is_reading = False
        if reading.cancelled():
            return
        self._failure = reading.exception()
        if self._failure is None:
            self._block_begin, self._block = offset, reading.result()
        self._when_read()


class SegmentGone(StoreError):
    """The segment was removed before it was sent."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the segment of {offset} was removed before it was sent")


def _read_block(file: MappedFile, position: int, length: int) -> bytes:
    """Read a block in a thread. Raises: StoreFailed."""
    apart = file.apart()
    try:
        block = apart.read(position, length)
        if position + length < file.size_bytes:
            apart.read_ahead(position + length, AHEAD_BYTES)
        return block
    finally:
        apart.release()
