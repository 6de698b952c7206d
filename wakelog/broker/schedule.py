"""Schedule: which delayed messages are due, from the entries of the schedule topic's queues.

The core of the actor that watches the 18 queues. It is given consume queue entries in order,
from ``position(level)`` on, and says which of them the Broker has to deliver now; the Broker
answers with how far it came (``delivered``), which alone moves a position. So nothing is due
twice from one Schedule, and what a new Schedule repeats the Broker drops by level and queue
offset.

An entry's tags code is its moment of delivery. One that lies further ahead than the level's whole
delay comes from a clock that was set back, and is due at once, as in 4.9.3. Moments of looking
are forgotten then: they were of the clock as it was.

Invariants:
    - a position never goes back, but by ``correct`` when the queue itself is shorter.
    - at most ``batch_max`` messages of a level are under way: the Broker's loop does not stand
      still for a queue that has an hour of messages due at the same moment.

Source: org.apache.rocketmq.store.schedule.ScheduleMessageService.DeliverDelayedMessageTimerTask and
correctDelayOffset (4.9.3). Upstream polls each queue every 100 ms; here ``next_look_ms`` says when.
"""

from collections.abc import Iterable, Mapping

import msgspec

from wakelog.broker.delay_level import DelayLevels

BATCH_MAX = 64  # a step of the Broker: about 2 ms at 30 us a message
ANSWER_MS = 1_000
"""How long the Broker has for saying how far it came, before the same is due again."""


class DueMessage(msgspec.Struct, frozen=True):
    """One entry of a schedule queue whose moment has come."""

    level: int
    queue_offset: int
    physical_offset: int
    size_bytes: int


class ScheduleStatistics(msgspec.Struct, frozen=True):
    """Positions by level and how often they had to be corrected."""

    positions: dict[int, int]
    corrected_count: int


class Schedule:
    """Positions of all levels, and when each is to be looked at again."""

    def __init__(self, levels: DelayLevels, positions: Mapping[int, int]) -> None:
        """Start at the Broker's ``delay_offsets``; a level that is not there starts at 0."""
        self._levels = levels
        self._positions = {
            level: max(0, positions.get(level, 0)) for level in range(1, levels.level_max + 1)
        }
        self._next_look_ms: dict[int, int] = dict.fromkeys(self._positions, 0)
        self._asked_ms = 0
        self._corrected_count = 0

    def position(self, level: int) -> int:
        """Return the queue offset from which entries of this level are wanted."""
        return self._positions[level]

    def levels_to_look_at(self, now_ms: int) -> list[int]:
        """Return the levels whose first entry may be due by now; all of them if now was before."""
        if now_ms < self._asked_ms:
            self._next_look_ms = dict.fromkeys(self._positions, now_ms)
        self._asked_ms = now_ms
        return [level for level, look_ms in self._next_look_ms.items() if look_ms <= now_ms]

    def next_look_ms(self) -> int:
        """Return the earliest moment at which ``levels_to_look_at`` is not empty."""
        return min(self._next_look_ms.values())

    def look(
        self,
        level: int,
        entries: Iterable[tuple[int, int, int]],
        now_ms: int,
        *,
        idle_ms: int,
        answer_ms: int = ANSWER_MS,
        batch_max: int = BATCH_MAX,
    ) -> list[DueMessage]:
        """Return what is due of this level.

        entries: (physical offset, size, deliver timestamp) from ``position(level)`` on, in
        order. idle_ms: when to look again at a queue without entries; an arrival comes earlier
        (``arrived``).
        """
        due: list[DueMessage] = []
        latest_ms = now_ms + self._levels.delay_ms(level)
        self._next_look_ms[level] = now_ms + idle_ms
        queue_offset = self._positions[level]
        for physical_offset, size_bytes, deliver_ms in entries:
            if now_ms < deliver_ms <= latest_ms:
                self._next_look_ms[level] = deliver_ms
                break
            if len(due) == batch_max:
                self._next_look_ms[level] = now_ms
                break
            due.append(DueMessage(level, queue_offset, physical_offset, size_bytes))
            queue_offset += 1
        if due:
            # Not before the Broker said how far it came, unless that answer never comes.
            self._next_look_ms[level] = now_ms + answer_ms
        return due

    def delivered(self, level: int, next_queue_offset: int, now_ms: int) -> None:
        """Take over how far the Broker came; the level is looked at again at once if it moved."""
        if next_queue_offset > self._positions[level]:
            self._positions[level] = next_queue_offset
            self._next_look_ms[level] = now_ms

    def arrived(self, level: int, now_ms: int) -> None:
        """Look at a level whose queue has grown, if it was believed to be empty."""
        if level in self._next_look_ms:
            self._next_look_ms[level] = min(self._next_look_ms[level], now_ms)

    def correct(self, level: int, *, queue_offset_min: int, queue_offset_max: int) -> None:
        """Bring a position back into its queue: retention or a truncation moved an end."""
        position = self._positions[level]
        corrected = min(max(position, queue_offset_min), max(queue_offset_max, queue_offset_min))
        if corrected != position:
            self._positions[level] = corrected
            self._corrected_count += 1

    def statistics(self) -> ScheduleStatistics:
        """Return positions and counters."""
        return ScheduleStatistics(dict(self._positions), self._corrected_count)

    def validate(self) -> None:
        """Assert the invariants of the module."""
        assert self._positions.keys() == self._next_look_ms.keys()
        assert set(self._positions) == set(range(1, self._levels.level_max + 1))
        assert all(position >= 0 for position in self._positions.values())
