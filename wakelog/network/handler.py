"""What the server needs of the shell that owns it: a Handler, and what to do with deferred answers.

The shell of a Broker or a NameServer implements these; the server knows neither.

Invariants:
    - ``channel_closed`` is the last thing a handler hears of a channel: it comes after every
      request that the channel had delivered, so that a heartbeat in a lane cannot bring back a
      client that has gone.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from wakelog.protocol.command import RemotingCommand


class Channel(Protocol):
    """One connection, as handlers see it; ``Server`` sends to it by its number."""

    @property
    def id(self) -> int:
        """Number of the connection, never used twice by one server."""
        ...

    @property
    def remote_host(self) -> str:
        """Numeric address of the peer."""
        ...

    @property
    def remote_port(self) -> int:
        """Port of the peer."""
        ...


class Handler(Protocol):
    """Who says what a request means."""

    def process(self, request: RemotingCommand, channel: Channel, now_ms: int) -> Any:
        """Return the answer, None for no answer, or anything else: an answer deferred.

        Raises: anything; the peer gets code 1 with its class and message.
        """
        ...

    def end_of_turn(self) -> None:
        """Write what this turn's requests left pending; no answer leaves before this returns.

        Raises: anything; then every answer of this turn becomes code 1, because a success among
        them may rest on bytes that were not written.
        """
        ...

    def channel_closed(self, channel: Channel, now_ms: int) -> None:
        """Forget a connection that is gone."""
        ...


Reply: TypeAlias = Callable[[RemotingCommand | None], None]
"""Give the answer to one deferred request, on the server's own thread; None means there is none.

After the connection is gone the answer is dropped and counted. A second call is a bug of the shell.
"""

OnDeferred: TypeAlias = Callable[[Any, RemotingCommand, Channel, Reply], None]
"""Take over a deferred outcome: ``on_deferred(outcome, request, channel, reply)``."""


AnswerError: TypeAlias = Callable[[RemotingCommand, Exception], RemotingCommand]
"""Make the answer to a request from the exception that ended it.

After a failed ``end_of_turn`` it gets the answer that cannot be given instead of the request: only
``opaque`` is the same.
"""


def refuse_deferred(
    outcome: Any, request: RemotingCommand, _channel: Channel, _reply: Reply
) -> None:
    """Stand in for a shell whose handler never defers."""
    raise TypeError(f"code {request.code}: nobody takes the deferred answer {outcome!r}")
