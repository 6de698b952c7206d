"""Peer: the protocol of one connection in both directions, without sockets and clocks.

Both ends may send requests at any time. ``Connection`` passes on the bytes that it reads, and gets
back the requests of the other end. A response goes to the waiter of its request.

    receive          bytes of the socket -> requests to execute; responses to their waiters
    begin_request    number a request that is about to be sent, and keep its waiter
    end_request      stop waiting: the response came, the caller gave up, or the time is over
    lose             the connection ended: every waiter gets SendFailed

Invariants:
    - requests that wait on one connection have different opaque numbers.
    - every waiter ends once: with its response, with SendFailed, or by ``end_request``.
    - at most ``waiting_max`` requests wait.
    - a response that no request waits for is counted and dropped. It may be late, or invented.

Source: org.apache.rocketmq.remoting.netty.NettyRemotingAbstract#processResponseCommand (4.9.3).
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TypeAlias

from wakelog.network.direct_waiter import DirectWaiter
from wakelog.network.errors import SendFailed, TooManyCalls
from wakelog.protocol.command import RESPONSE_FLAG, RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.frame import BodyBytesMax, FrameDecoder

OPAQUE_MASK = 0x7FFFFFFF
"""Opaque numbers are positive Java ints."""


Waiter: TypeAlias = "asyncio.Future[RemotingCommand] | Future[RemotingCommand] | DirectWaiter"
"""The place for one response, or for the error in its place."""


class Peer:
    """What this end knows of the other end of one connection.

    Attributes:
        address: the other end, for errors and logs.
        decoder: holds the bytes of a frame that is not complete yet.
        error: the bad frame of the other end, if it sent one; no later byte can be decoded.
        responses_count: responses received, of which ``unsolicited_count`` had no waiter.
    """

    def __init__(
        self,
        address: str,
        *,
        waiting_max: int,
        body_bytes_max: BodyBytesMax | None = None,
        gathers_sends: bool = False,
        has_room: bool = False,
    ) -> None:
        """Start a connection.

        waiting_max: requests that may wait for a response at once.
        body_bytes_max: a request with a longer body comes without it.
        gathers_sends: plain sends that come together come as a SendRun.
        has_room: the body of a long response is a view of its frame.
        """
        self.address = address
        self.decoder = FrameDecoder(
            body_bytes_max=body_bytes_max, gathers_sends=gathers_sends, has_room=has_room
        )
        self._last_opaque = 0
        self._waiting: dict[int, Waiter] = {}
        self._waiting_max = waiting_max
        self.error: RemoteProtocolError | None = None
        self.responses_count = 0
        self.unsolicited_count = 0

    @property
    def waiting_count(self) -> int:
        """How many requests wait for a response."""
        return len(self._waiting)

    def receive(self, data: bytes | memoryview) -> Sequence[RemotingCommand]:
        """Decode a chunk and return its requests; its responses go to their waiters.

        After a bad frame ``error`` is set; the requests before it are returned.
        """
        try:
            commands = self.decoder.feed(data)
        except RemoteProtocolError as error:
            # Not the error itself: its traceback has this frame and the bytes, so that only a full
            # collection would free them.
            self.error = RemoteProtocolError(error.code, error.remark)
            commands = self.decoder.preceding
        for command in commands:
            if command.flag & RESPONSE_FLAG:
                return self._without_responses(commands)
        return commands

    def _without_responses(self, commands: list[RemotingCommand]) -> list[RemotingCommand]:
        requests = []
        for command in commands:
            if not command.flag & RESPONSE_FLAG:
                requests.append(command)
                continue
            self.responses_count += 1
            waiter = self._waiting.pop(command.opaque, None)
            if waiter is None or waiter.done():
                self.unsolicited_count += 1
            else:
                waiter.set_result(command)
        return requests

    def next_opaque(self) -> int:
        """Return the number for the next request, which no waiting request has."""
        opaque = self._last_opaque
        while True:
            opaque = (opaque + 1) & OPAQUE_MASK
            if opaque not in self._waiting:
                self._last_opaque = opaque
                return opaque

    def begin_request(self, command: RemotingCommand, waiter: Waiter) -> int:
        """Give a request its opaque number, and return it; its response goes to ``waiter``.

        Raises: TooManyCalls.
        """
        if len(self._waiting) >= self._waiting_max:
            raise TooManyCalls(self.address, f"{self._waiting_max} requests wait for a response")
        command.opaque = opaque = self.next_opaque()
        self._waiting[opaque] = waiter
        return opaque

    def end_request(self, opaque: int) -> None:
        """Wait no longer for a response."""
        self._waiting.pop(opaque, None)

    def lose(self, reason: str) -> None:
        """End every waiter: no response can come any more."""
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting.values():
            if not waiter.done():
                waiter.set_exception(SendFailed(self.address, reason))
