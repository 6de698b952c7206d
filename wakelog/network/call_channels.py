"""CallChannels: the connections of a server that come by calls of an actor, not by its ports.

Each call brings bytes, waits, and takes back what the server has written meanwhile, at the latest
after `POLL_SECONDS`. The oldest call that waits takes the bytes. So a client with one call more
than it needs gets requests of the server at once.

Invariants:
    - a channel with no call waiting for `ABSENT_SECONDS_MAX` is closed: its client has died.
    - at most `WAITING_MAX` calls of a channel wait while the server reads; the oldest goes back.

Source: none upstream.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from wakelog.network.call_transport import (
    CALLS_MAX,
    NO_CHUNK,
    CallAnswer,
    CallTransport,
    OutOfOrder,
)

POLL_SECONDS: Final = 10.0
"""How long a call waits at most. The time of no request depends on it."""

ABSENT_SECONDS_MAX: Final = 30.0
"""A client whose loop is busy for so long loses its channel, and makes another one."""

WAITING_MAX: Final = CALLS_MAX // 2
"""Of a client's calls; with the others it can bring more."""

CHANNELS_MAX: Final = 100
"""An actor executes 1,000 calls at a time (`max_concurrency`), and its services need some."""

_EMPTY: Final = CallAnswer(NO_CHUNK, b"", True)
_ENDED: Final = CallAnswer(NO_CHUNK, b"", False)

Accept: TypeAlias = Callable[[], asyncio.Protocol]
"""Return the protocol of a new connection (Server.make_connection)."""


class CallChannels:
    """See the module. One loop, one thread; the `CallPeer` of its clients."""

    def __init__(self, accept: Accept) -> None:
        """Have no channel yet."""
        self._accept = accept
        self._channels: dict[str, CallChannel] = {}

    async def open_channel(self) -> str | None:
        """Begin a connection and return its name; None if there is no room for one more."""
        if len(self._channels) >= CHANNELS_MAX:
            return None
        name = secrets.token_hex(16)
        channel = CallChannel(self._accept(), lambda: self._channels.pop(name, None))
        if not channel.is_open:
            return None
        self._channels[name] = channel
        return name

    async def exchange(self, channel: str, number: int, data: bytes) -> CallAnswer:
        """Bring a chunk, and return what the server has written once there is something."""
        found = self._channels.get(channel)
        return _ENDED if found is None else await found.exchange(number, data)

    async def close_channel(self, channel: str, number: int, data: bytes) -> None:
        """Bring the last chunk, and end the connection."""
        if (found := self._channels.get(channel)) is not None:
            found.finish(number, data)

    def __len__(self) -> int:
        """Count the open channels."""
        return len(self._channels)


class CallChannel:
    """One connection, and the calls that wait for what it writes."""

    def __init__(self, protocol: asyncio.Protocol, forget: Callable[[], object]) -> None:
        """Begin it. forget: called once, when nothing can be taken any more."""
        self._loop = asyncio.get_running_loop()
        self._forget = forget
        self._waiting: deque[asyncio.Future[CallAnswer]] = deque()
        self._transport = CallTransport(protocol, on_change=self._answer, on_close=self._close)
        self._absent = self._loop.call_later(ABSENT_SECONDS_MAX, self._lose)
        protocol.connection_made(self._transport)

    @property
    def is_open(self) -> bool:
        """Whether it can bring something."""
        return not self._transport.is_closing()

    async def exchange(self, number: int, data: bytes) -> CallAnswer:
        """See CallChannels."""
        self._absent.cancel()
        waiter: asyncio.Future[CallAnswer] = self._loop.create_future()
        self._waiting.append(waiter)
        # Not asyncio.timeout: it could drop an answer that is there already.
        poll = self._loop.call_later(POLL_SECONDS, self._send_back, waiter)
        try:
            self._bring(number, data)
            self._answer()
            return await waiter
        finally:
            poll.cancel()
            if self.is_open and not self._waiting:
                self._absent.cancel()
                self._absent = self._loop.call_later(ABSENT_SECONDS_MAX, self._lose)

    def finish(self, number: int, data: bytes) -> None:
        """Bring the last chunk, and end: the client has closed."""
        self._bring(number, data)
        self._lose()

    def _bring(self, number: int, data: bytes) -> None:
        if number != NO_CHUNK and self.is_open:
            try:
                self._transport.accept(number, data)
            except OutOfOrder:
                self._lose()

    def _send_back(self, waiter: asyncio.Future[CallAnswer]) -> None:
        if not waiter.done():
            self._waiting.remove(waiter)
            waiter.set_result(_EMPTY)

    def _answer(self) -> None:
        """Give what was written to the calls that wait longest, and send back those too many."""
        transport = self._transport
        while self._waiting and transport.has_written:
            waiter = self._waiting.popleft()
            if not waiter.done():  # a cancelled call takes nothing
                waiter.set_result(CallAnswer(*transport.take(), True))
        if transport.is_closing() and not transport.has_written:
            self._end()
        while len(self._waiting) > WAITING_MAX and not transport.is_reading_paused:
            self._send_back(self._waiting[0])

    def _close(self) -> None:
        """The server has closed the connection: its last responses may still be taken."""
        self._transport.end(None)
        self._answer()

    def _lose(self) -> None:
        self._transport.abort()
        self._end()

    def _end(self) -> None:
        self._absent.cancel()
        self._forget()
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(_ENDED)
