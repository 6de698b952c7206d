"""Schedule: the delayed messages that are due, from the entries of the schedule topic's queues.

The Broker reports how far it came (``delivered``); only that moves a position. So one Schedule
returns no entry twice. What a new Schedule repeats, the Broker drops by level and queue offset.

An entry's tags code is its time of delivery. A time further ahead than the level's whole delay
means that the clock was set back: the entry is due at once, as in 4.9.3. The times of the next
reads are dropped then, because they belong to the old clock.

Invariants:
    - a position never goes back, except by ``correct`` when the queue itself is shorter.
    - at most ``BATCH_MAX`` messages of a level are in flight: the Broker's loop does not stall for
      a queue with an hour of messages due at the same time.

Source: org.apache.rocketmq.store.schedule.ScheduleMessageService.DeliverDelayedMessageTimerTask and
correctDelayOffset (4.9.3). 4.9.3 polls each queue every 100 ms; here ``next_read_ms`` decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

BATCH_MAX = 64  # about 2 ms of the Broker's loop, at 30 us a message
ANSWER_MS = 1_000
"""How long the Broker may take to report its progress before the same entries are due again."""


class DueMessage(msgspec.Struct, frozen=True):
    """One entry of a schedule queue that is due."""

    level: int
    queue_offset: int
    physical_offset: int
    size_bytes: int


class Schedule:
    """Positions of all levels, and the time of the next read of each."""

    def __init__(self, delays_ms: Sequence[int], positions: Mapping[int, int]) -> None:
        """Start at the Broker's delay offsets; a level without one starts at 0.

        delays_ms: of `StoreConfig.delays_ms`.
        """
        self._delays_ms = delays_ms
        self._positions = {
            level: max(0, positions.get(level, 0)) for level in range(1, len(delays_ms) + 1)
        }
        self._next_read_ms: dict[int, int] = dict.fromkeys(self._positions, 0)
        self._asked_ms = 0
        self._last_level = 0
        self._corrected_count = 0

    def position(self, level: int) -> int:
        """Return the queue offset of the next entry to read."""
        return self._positions[level]

    def levels_to_read(self, now_ms: int) -> list[int]:
        """Return the levels whose first entry may be due; all levels if the clock was set back.

        They begin after the level that had due entries last, for a call may not come to all.
        """
        if now_ms < self._asked_ms:
            self._next_read_ms = dict.fromkeys(self._positions, now_ms)
        self._asked_ms = now_ms
        found = [level for level, read_ms in self._next_read_ms.items() if read_ms <= now_ms]
        return sorted(found, key=lambda level: level <= self._last_level)

    def next_read_ms(self) -> int:
        """Return the earliest time at which ``levels_to_read`` is not empty."""
        return min(self._next_read_ms.values())

    def take_due(
        self,
        level: int,
        entries: Iterable[tuple[int, int, int]],
        now_ms: int,
        *,
        idle_ms: int,
    ) -> list[DueMessage]:
        """Return the entries of this level that are due.

        entries: (physical offset, size, deliver timestamp) from ``position(level)`` on, in
        order. idle_ms: when to read a queue without entries again; an arrival comes earlier
        (``arrived``).
        """
        due: list[DueMessage] = []
        latest_ms = now_ms + self._delays_ms[level - 1]
        self._next_read_ms[level] = now_ms + idle_ms
        queue_offset = self._positions[level]
        for physical_offset, size_bytes, deliver_ms in entries:
            if now_ms < deliver_ms <= latest_ms:
                self._next_read_ms[level] = deliver_ms
                break
            if len(due) == BATCH_MAX:
                self._next_read_ms[level] = now_ms
                break
            due.append(DueMessage(level, queue_offset, physical_offset, size_bytes))
            queue_offset += 1
        if due:
            self._last_level = level
            # Wait for the report of the Broker, or until it is late.
            self._next_read_ms[level] = now_ms + ANSWER_MS
        return due

    def delivered(self, level: int, next_queue_offset: int, now_ms: int) -> None:
        """Apply the Broker's progress; a level that moved is read again at once."""
        if next_queue_offset > self._positions[level]:
            self._positions[level] = next_queue_offset
            self._next_read_ms[level] = now_ms

    def arrived(self, level: int, now_ms: int) -> None:
        """Have a level read at once: its queue has grown."""
        if level in self._next_read_ms:
            self._next_read_ms[level] = min(self._next_read_ms[level], now_ms)

    def correct(self, level: int, *, queue_offset_min: int, queue_offset_max: int) -> None:
        """Move a position back into its queue after retention or a truncation moved an end."""
        position = self._positions[level]
        corrected = min(max(position, queue_offset_min), max(queue_offset_max, queue_offset_min))
        if corrected != position:
            self._positions[level] = corrected
            self._corrected_count += 1

    def statistics(self) -> dict[str, Any]:
        """Return positions and counters."""
        return {"positions": dict(self._positions), "corrected_count": self._corrected_count}

    def validate(self) -> None:
        """Assert the invariants of the module."""
        assert self._positions.keys() == self._next_read_ms.keys()
        assert set(self._positions) == set(range(1, len(self._delays_ms) + 1))
        assert all(position >= 0 for position in self._positions.values())
