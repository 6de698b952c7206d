"""A transport, a clock, a loop and a handler that obey the real ones' contracts, driven by hand."""

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wakelog.network.connection import Connection
from wakelog.network.handler import Channel
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.frame import FrameDecoder


class FakeClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return int(self.seconds * 1000)

    def spend(self, seconds: float) -> None:
        self.seconds += seconds


class FakeLoop:
    """``call_soon`` and ``call_later``; ``turn_over`` runs what was scheduled before it."""

    def __init__(self) -> None:
        self.ready: deque[Callable[[], None]] = deque()
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.timers.append((seconds, callback))

    def end_timers(self) -> None:
        timers, self.timers = self.timers, []
        for _, callback in timers:
            callback()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.ready.append(callback)

    def turn_over(self) -> None:
        for _ in range(len(self.ready)):
            self.ready.popleft()()

    def run_until_quiet(self) -> None:
        while self.ready:
            self.turn_over()


class FakeTransport(asyncio.Transport):
    """A socket whose peer reads when the test wants it; it calls its protocol as real ones do."""

    def __init__(self, protocol: asyncio.Protocol, peer: tuple[str, int] = ("10.0.0.9", 4711)):
        super().__init__({"peername": peer})
        self._protocol = protocol
        self._closing = False
        self._buffer = bytearray()
        self._high = 64 * 1024
        self.taken = bytearray()
        self.reading = True
        self.write_calls = 0
        self.peer_reads = True

    def write(self, data: Any) -> None:
        assert not self._closing
        self.write_calls += 1
        self._buffer += data
        if self.peer_reads:
            self.let_peer_read()
        elif len(self._buffer) > self._high:
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def let_peer_read(self, size_bytes: int | None = None) -> None:
        size_bytes = len(self._buffer) if size_bytes is None else size_bytes
        was_over = len(self._buffer) > self._high
        self.taken += self._buffer[:size_bytes]
        del self._buffer[:size_bytes]
        if was_over and len(self._buffer) <= self._high // 4:
            self._protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self._high = high

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._buffer:
                self._protocol.connection_lost(None)

    def abort(self) -> None:
        self._closing = True
        self._buffer.clear()
        self._protocol.connection_lost(None)

    def answers(self) -> list[RemotingCommand]:
        """What the peer has read so far, decoded."""
        return FrameDecoder().feed(bytes(self.taken))


class FakeHandler:
    """A handler whose rule is a function; it records its calls."""

    def __init__(self, rule: Callable[[RemotingCommand], Any] | None = None) -> None:
        self.rule = rule or (lambda request: answer(request, 0))
        self.processed: list[int] = []
        self.closed: list[int] = []
        self.turns_ended = 0
        self.processed_at_end: list[int] = []
        self.write_error: Exception | None = None
        self.end_error: Exception | None = None
        self.channels: list[Channel] = []

    def process(self, request: RemotingCommand, channel: Channel, now_ms: int) -> Any:
        self.processed.append(request.opaque)
        self.channels.append(channel)
        return self.rule(request)

    def write(self, began_seconds: float) -> None:
        self.turns_ended += 1
        self.processed_at_end.append(len(self.processed))
        if self.write_error is not None:
            raise self.write_error

    def end_of_turn(self) -> None:
        if self.end_error is not None:
            raise self.end_error

    def channel_closed(self, channel: Channel, now_ms: int) -> None:
        self.closed.append(channel.id)


def connect(connection: Connection, peer: tuple[str, int] = ("10.0.0.9", 4711)) -> FakeTransport:
    """Give a connection a transport, as a loop does on accept."""
    transport = FakeTransport(connection, peer)
    connection.connection_made(transport)
    return transport


@contextmanager
def no_collections() -> Iterator[None]:
    """Let what is in a cycle stay, so that it can be told from what is freed with its last user."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
