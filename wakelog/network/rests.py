"""Rests: a connection that sends one-way messages close together is read once a millisecond.

A client writes each of them by itself, and goes on at once. To read each by itself wakes the loop
for it, and the client's thread pays for that. What has come in a millisecond is one chunk, and so
one run. Nobody waits for an answer to it.

A rest begins after `CHUNKS_MIN` chunks in a row that had one-way messages only, each of them near
the one before. A request that wants an answer ends the row; one that comes during a rest waits for
its end. A long chunk has no rest after it: the peer may fill the socket's buffer before its end.

Invariant: a connection rests for `REST_SECONDS` at most, and then is read.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from wakelog.network.connection import PAUSED_BY_REST, Connection

CallLater: TypeAlias = Callable[[float, Callable[[], None]], Any]
"""Calls a function after so many seconds."""

REST_SECONDS: Final = 0.001
"""What the loop's timers can tell apart. A consumer waits so much longer for such a message."""

NEAR_SECONDS: Final = 3 * REST_SECONDS
"""Between two chunks. Messages at longer intervals are cheaper without rests."""

CHUNKS_MIN: Final = 8

CHUNK_BYTES_MAX: Final = 65_536
"""Half of what a socket of Linux takes at first."""


class Rests:
    """The connections that rest now."""

    def __init__(self, call_later: CallLater) -> None:
        """Let none rest yet."""
        self._call_later = call_later
        self._resting: list[Connection] = []

    def after_oneway(self, connection: Connection, chunk_bytes: int) -> None:
        """Let a connection rest after a chunk of one-way messages, if it sends many."""
        activity = connection.activity
        gap_seconds = activity.read_seconds - activity.oneway_seconds
        if not gap_seconds:
            return  # the same chunk
        activity.oneway_seconds = activity.read_seconds
        activity.oneway_count = activity.oneway_count + 1 if gap_seconds < NEAR_SECONDS else 0
        if activity.oneway_count < CHUNKS_MIN or chunk_bytes >= CHUNK_BYTES_MAX:
            return
        connection.pause_reading(PAUSED_BY_REST)
        if not self._resting:
            self._call_later(REST_SECONDS, self._end)
        self._resting.append(connection)

    def _end(self) -> None:
        resting, self._resting = self._resting, []
        for connection in resting:
            connection.resume_reading(PAUSED_BY_REST)
