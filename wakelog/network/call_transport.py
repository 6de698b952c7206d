"""CallTransport: a connection whose bytes travel in the calls of an actor, without a socket.

`Connection` and everything above it work as over TCP. The caller has calls under way all the time;
a call brings bytes to the other end, and its answer brings bytes back. Calls may overtake each
other, so each chunk of a direction has a number.

    write -> take -> [call or answer] -> accept -> data_received

Invariants:
    - the chunks of one direction are delivered in the order of their numbers, each once.
    - at most `CHUNKS_AHEAD_MAX` chunks wait for one that is missing.
    - the protocol's `connection_lost` is called once.

Source: none upstream; the contract is that of asyncio.Transport.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

CHUNK_BYTES_MAX: Final = 4 << 20
"""One message of the greatest length; a single longer frame goes alone."""

CALLS_MAX: Final = 8
"""Calls of one channel under way; further bytes gather, and go with the next call."""

CHUNKS_AHEAD_MAX: Final = 64
"""Answers may pass each other; more than that means that one was lost."""

NO_CHUNK: Final = -1
"""The number of a call or an answer that brings no bytes."""

LOOPBACK: Final = ("127.0.0.1", 0)
"""What handlers see as the peer of calls and of a local socket.

Whoever may call an actor is trusted like a local process.
"""


class CallAnswer(NamedTuple):
    """What a call brings back. is_open: False once nothing more will come."""

    number: int
    data: bytes
    is_open: bool


class CallPeer(Protocol):
    """The other end: an actor, or in tests the object itself."""

    async def open_channel(self) -> str | None:
        """Begin a connection and return its name; None if the other end does not accept now."""
        ...

    async def exchange(self, channel: str, number: int, data: bytes) -> CallAnswer:
        """Bring a chunk, and return what has come back once there is something."""
        ...

    async def close_channel(self, channel: str, number: int, data: bytes) -> None:
        """Bring the last chunk, and end the connection."""
        ...


class OutOfOrder(ConnectionError):
    """A chunk is missing, and too many came after it."""


class CallTransport(asyncio.Transport):
    """See the module. One loop, one thread."""

    def __init__(
        self,
        protocol: asyncio.Protocol,
        *,
        on_change: Callable[[], None],
        on_close: Callable[[], None],
    ) -> None:
        """Deliver nothing before the protocol's `connection_made`, which the caller calls.

        on_change: there are bytes to take, or the protocol reads again.
        on_close: the protocol has closed it; `end` has to follow.
        """
        super().__init__({"peername": LOOPBACK})
        self._protocol = protocol
        self._on_change = on_change
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._written: deque[bytes | bytearray | memoryview] = deque()
        self._written_bytes = 0
        self._taken_count = 0
        self._high_bytes = CHUNK_BYTES_MAX
        self._is_writing_paused = False
        self._accepted_count = 0
        self._ahead: dict[int, bytes] = {}
        self._unread: deque[bytes] = deque()
        self.is_reading_paused = False
        self._is_closing = False
        self._has_ended = False

    @property
    def has_written(self) -> bool:
        """Whether there is something to take."""
        return bool(self._written)

    def take(self) -> tuple[int, bytes]:
        """Return the next chunk and its number; `NO_CHUNK` and no bytes if nothing was written."""
        parts: list[bytes | bytearray | memoryview] = []
        size_bytes = 0
        while self._written and (
            not parts or size_bytes + len(self._written[0]) <= CHUNK_BYTES_MAX
        ):
            parts.append(self._written.popleft())
            size_bytes += len(parts[-1])
        if not parts:
            return NO_CHUNK, b""
        self._written_bytes -= size_bytes
        if self._is_writing_paused and self._written_bytes <= self._high_bytes // 4:
            self._is_writing_paused = False
            self._protocol.resume_writing()
        self._taken_count += 1
        return self._taken_count - 1, bytes(parts[0]) if len(parts) == 1 else b"".join(parts)

    def accept(self, number: int, data: bytes) -> None:
        """Deliver a chunk of the other end when those before it have come. Raises: OutOfOrder."""
        if number < self._accepted_count:
            return
        self._ahead[number] = data
        if len(self._ahead) > CHUNKS_AHEAD_MAX:
            raise OutOfOrder(f"chunk {self._accepted_count} of a channel is missing")
        while (following := self._ahead.pop(self._accepted_count, None)) is not None:
            self._accepted_count += 1
            self._unread.append(following)
        self._deliver()

    def _deliver(self) -> None:
        while self._unread and not (self.is_reading_paused or self._is_closing):
            self._protocol.data_received(self._unread.popleft())

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep bytes for `take`."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Keep bytes for `take`, without joining them."""
        if self._is_closing:
            return
        for data in list_of_data:
            self._written.append(data)
            self._written_bytes += len(data)
        self._on_change()
        if self._written_bytes > self._high_bytes and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait to be taken."""
        return self._written_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Pause the protocol's writes above `high` bytes; a quarter of it resumes them."""
        self._high_bytes = CHUNK_BYTES_MAX if high is None else high

    def pause_reading(self) -> None:
        """Keep what comes until `resume_reading`."""
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        """Deliver what was kept."""
        self.is_reading_paused = False
        self._loop.call_soon(self._deliver)
        self._on_change()

    def is_closing(self) -> bool:
        """Whether it was closed, by either end."""
        return self._is_closing

    def close(self) -> None:
        """Accept no more; what was written can still be taken."""
        if not self._is_closing:
            self._is_closing = True
            self._on_close()

    def abort(self) -> None:
        """End at once; what was written is lost."""
        self._written.clear()
        self._written_bytes = 0
        self.close()
        self.end(None)

    def end(self, error: Exception | None) -> None:
        """Report the end to the protocol, in the next turn of the loop."""
        self._is_closing = True
        if not self._has_ended:
            self._has_ended = True
            self._loop.call_soon(self._protocol.connection_lost, error)
