"""What the server needs of its owner: a Handler, and functions for parked responses and errors.

The shells of Broker and NameServer implement these; the server knows neither.

Invariants:
    - ``channel_closed`` is the last call for a channel. It comes after every request of the
      channel, so a heartbeat that waits in a lane cannot register a closed client again.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.send_run import SendRun


class Channel(Protocol):
    """One connection, as handlers see it; ``Server`` sends to it by its number."""

    # The id is never used twice by one server; the host is a numeric address.
    id: int
    remote_host: str
    remote_port: int
    local_host: str
    """The address of this end; "" if it is unknown."""


class Handler(Protocol):
    """Executes requests."""

    def process(self, request: RemotingCommand, channel: Channel, now_ms: int) -> Any:
        """Return the response, None for no response, work for it, or a value to park.

        Work is a generator, which the server drives (`driver`); it returns one of the others.

        Raises: anything; the peer gets code 1 with its class and message.
        """
        ...

    def write(self, began_seconds: float) -> None:
        """Write what this turn's requests left pending; responses are sent after this returns.

        began_seconds: when the first of these requests was begun, on the server's clock.

        Raises: anything; then every response of this turn becomes code 1, because a success among
        them may depend on bytes that were not written.
        """
        ...

    def end_of_turn(self) -> None:
        """Do what need not come before the responses; they were sent."""
        ...

    def channel_closed(self, channel: Channel, now_ms: int) -> bool | None:
        """Forget a closed connection; True if much was left of it, for another call of this."""
        ...


Reply: TypeAlias = Callable[[RemotingCommand | None], None]
"""Give the response to one deferred request, on the server's own thread; None means no response.

If the connection is closed, the response is dropped and counted. A second call is a bug.
"""

Park: TypeAlias = Callable[[Any, RemotingCommand, Reply], None]
"""Keep an outcome until its response is ready: ``park(outcome, request, reply)``."""


def park_nothing(outcome: object, request: RemotingCommand, reply: Reply) -> None:
    """Refuse an outcome that is no response, for a handler that has none such."""
    raise TypeError(f"an outcome of type {type(outcome).__name__} for code {request.code}")


ProcessRun: TypeAlias = Callable[[SendRun, Channel, int], Any]
"""Take the first sends of a run: ``process_run(run, channel, now_ms)``.

Return `RunResponses`, a value to park, or None. The first send that it leaves is for `process`.
"""

AnswerLoneSend: TypeAlias = Callable[[bytes | memoryview, Channel, float], bytes | None]
"""Store and write a plain send that is all of a chunk, and return the frame of its response.

``answer_lone_send(chunk, channel, began_seconds)`` returns b"" for a one-way send. None: the chunk
is something else, or has to go through a turn; then nothing was stored. What it raises closes the
connection, as all that a protocol of asyncio raises.
"""

AnswerError: TypeAlias = Callable[[RemotingCommand, Exception], RemotingCommand]
"""Make the response to a request from the exception that ended it.

After a failed ``write`` it gets the lost response in place of the request: only ``opaque`` is
the same.
"""
