"""HandshakeLine: TLS handshakes begin a few at a time, and a bounded number is unfinished.

A handshake takes half a millisecond of the loop, and whoever connects may begin one. 5,000 that
arrived at once stopped everybody for 2.6 s, and held 250 MB. So a connection whose first byte asks
for TLS waits in line, unread. In each turn of the loop a few begin. While the server has its
certificate made none begins: all would go on in the turn in which it is there. Above
``UNFINISHED_MAX`` the oldest one is given up: a client that goes on with its handshake has finished
long before.

Invariants: at most ``BEGUN_PER_TURN`` begin between two reads of the sockets, in the order in which
they came; at most ``UNFINISHED_MAX`` are unfinished.

Source: none upstream; there each of some threads has a share of the connections.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

BEGUN_PER_TURN: Final = 2
"""Some 1 ms: as much as a turn gives to long requests."""

UNFINISHED_MAX: Final = 1_024
"""50 MB. As many begin in half a second at the earliest, and a client needs two ways for one."""


class Handshake(Protocol):
    """What a connection does when it is told."""

    def is_ready(self) -> bool:
        """Return whether it may begin; if not, it calls ``HandshakeLine.go_on`` when it may."""
        ...

    def begin(self) -> bool:
        """Begin the handshake; False if there is none to begin: the connection is closed."""
        ...

    def give_up(self) -> None:
        """Close the connection: too many began after it."""
        ...


class HandshakeLine:
    """The handshakes of one server."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], Any]) -> None:
        """Begin nothing yet; `call_soon` runs a function after the next reads."""
        self._call_soon = call_soon
        self._waiting: deque[Handshake] = deque()
        self._unfinished: dict[Handshake, None] = {}
        self._begun_count = 0
        self._is_scheduled = False

    def enter(self, handshake: Handshake) -> None:
        """Begin a handshake now, or in its turn."""
        self._waiting.append(handshake)
        self._begin()

    def go_on(self) -> None:
        """Begin some of those that were not ready."""
        self._begin()

    def finished(self, handshake: Handshake) -> None:
        """Note the end of one that began, whatever its outcome."""
        self._unfinished.pop(handshake, None)

    def _begin(self) -> None:
        while self._waiting and self._begun_count < BEGUN_PER_TURN:
            if not self._waiting[0].is_ready():
                break
            handshake = self._waiting.popleft()
            if not handshake.begin():
                continue
            self._begun_count += 1
            self._unfinished[handshake] = None
            if len(self._unfinished) > UNFINISHED_MAX:
                oldest = next(iter(self._unfinished))
                self.finished(oldest)
                oldest.give_up()
        if self._begun_count and not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_scheduled = False
        self._begun_count = 0
        self._begin()
