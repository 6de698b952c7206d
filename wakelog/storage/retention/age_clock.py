"""AgeClock: the time by which segments age, which a clock that is set forward does not move.

A clock that jumps a year ahead makes every segment look a year old, and its hour of removal would
take them all. So a jump is not believed before what was there at that moment has reached its age
without it. A clock that is set back is believed at once: then segments are kept for longer.

Invariants:
    - a segment written at `time_ms` is never said to be older than it is by the steady clock, as
      long as this object has lived.
    - times are those of the wall clock again `reserved_ms` behind the last jump, at the latest.

4.9.3 removes by the wall clock alone (CommitLog.deleteExpiredFile).
"""

JUMP_MS_MIN = 60_000
"""Two clocks that part by less between looks are being brought together, not set."""


class AgeClock:
    """The wall clock less what it jumped ahead not long ago. No clock of its own."""

    __slots__ = ("_ahead_ms", "_jumped_ms", "_lag_ms", "_reserved_ms")

    def __init__(self, reserved_ms: int, wall_ms: int, steady_ms: int) -> None:
        """Believe the wall clock as it stands.

        reserved_ms: the age at which segments go. steady_ms: of a clock that is never set.
        """
        self._reserved_ms = reserved_ms
        self._ahead_ms = wall_ms - steady_ms
        self._lag_ms = 0
        self._jumped_ms = steady_ms

    def look(self, wall_ms: int, steady_ms: int) -> int:
        """Return the time by which ages are to be reckoned now."""
        moved_ms, self._ahead_ms = wall_ms - steady_ms - self._ahead_ms, wall_ms - steady_ms
        if moved_ms >= JUMP_MS_MIN:
            self._lag_ms += moved_ms
            self._jumped_ms = steady_ms
        elif moved_ms <= -JUMP_MS_MIN:
            self._lag_ms = max(0, self._lag_ms + moved_ms)
        if steady_ms - self._jumped_ms >= self._reserved_ms:
            self._lag_ms = 0
        return wall_ms - self._lag_ms
