"""Drain: when the clients of a broker that is about to stop have moved. Rules without a clock.

Its topics are registered without write permission, so that producers turn to other brokers. It
takes sends all the same: a producer that has an old route loses nothing.

    sends   have ended: none came for `QUIET_MS`
    pulls   that were held at the beginning have ended, by a message or by their own deadline

Source: no counterpart in 4.9.3, whose operators give wipeWritePerm, wait, and stop the broker.
"""

from typing import Final

QUIET_MS: Final = 3_000
"""A producer that sends less often asks for the route in time, or tries another broker."""


class Drain:
    """One drain, from its beginning on."""

    def __init__(self, now_ms: int, bound_ms: int, sends_count: int, next_hold_id: int) -> None:
        """Begin.

        bound_ms: for how long it lasts at most. next_hold_id: pulls below it are waited for.
        """
        self._end_ms = now_ms + bound_ms
        self._sent_ms, self._sends_count = now_ms, sends_count
        self.next_hold_id = next_hold_id

    def waits_for(self, now_ms: int, sends_count: int, *, has_held: bool) -> str:
        """Return what is waited for, "" if it is over.

        sends_count: of all that came. has_held: whether a pull from before is still held.
        """
        if sends_count != self._sends_count:
            self._sent_ms, self._sends_count = now_ms, sends_count
        if now_ms >= self._end_ms:
            return ""
        if now_ms - self._sent_ms < QUIET_MS:
            return "producers to move"
        return "held pulls to end" if has_held else ""
