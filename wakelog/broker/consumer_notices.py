"""ConsumerNotices: when to notify the members of a consumer group that it has changed (code 40).

The first change of a group is notified at once. Changes in the ``PERIOD_MS`` after it go together,
at its end. So a member gets at most one notice a second, however many others come and go; the first
of 5,000 members that join one by one would else get 5,000. A group of one member has no period.

Notices leave in steps, because each is a frame for another connection. A group whose last notices
have not left waits for another period.

    note(group) -> [members listed] -> take: STEP_COUNT_MAX each STEP_MS
               \\-> waiting until the end of its period -/

Invariants:
    - a group waits only if a period of it is under way.
    - ``_quiet_until_ms`` is in the order of its times.

Source: org.apache.rocketmq.broker.client.DefaultConsumerIdsChangeListener (4.9.3), which notifies
every member at every change.
"""

from collections.abc import Callable, Iterable
from typing import Final

PERIOD_MS: Final = 1_000
STEP_MS: Final = 10

STEP_COUNT_MAX: Final = 64
"""Some 1 ms of the loop: 6,400 notices a second take a tenth of it."""


class ConsumerNotices:
    """The groups to notify now, and those that have to wait."""

    def __init__(self, members: Callable[[str], Iterable[int]]) -> None:
        """Start with none; ``members(group)`` returns the connections of a group now."""
        self._members = members
        self._quiet_until_ms: dict[str, int] = {}
        self._waiting: set[str] = set()
        self._leaving: dict[str, list[int]] = {}
        self._step_began_ms = 0
        self._step_count = 0

    @property
    def is_pending(self) -> bool:
        """Whether there are notices yet to leave."""
        return bool(self._waiting or self._leaving)

    def note(self, group: str, now_ms: int) -> None:
        """Have the members of a group notified, now or at the end of its period."""
        self._end_periods(now_ms)
        if group in self._leaving:
            self._quiet_until_ms.setdefault(group, now_ms + PERIOD_MS)
        if group in self._quiet_until_ms:
            self._waiting.add(group)
        else:
            self._begin(group, now_ms)

    def take(self, now_ms: int) -> list[tuple[str, int]]:
        """Return the group and the connection of each notice that may leave now."""
        self._end_periods(now_ms)
        if not 0 <= now_ms - self._step_began_ms < STEP_MS:
            self._step_began_ms, self._step_count = now_ms, 0
        notices: list[tuple[str, int]] = []
        while self._leaving and self._step_count < STEP_COUNT_MAX:
            group, channel_ids = next(iter(self._leaving.items()))
            if channel_ids:
                notices.append((group, channel_ids.pop()))
                self._step_count += 1
            if not channel_ids:
                del self._leaving[group]
        return notices

    def next_ms(self) -> int | None:
        """Return when ``take`` next has notices, None if nothing is pending."""
        if self._leaving:
            return self._step_began_ms + STEP_MS
        return next(iter(self._quiet_until_ms.values())) if self._waiting else None

    def validate(self) -> None:
        """Assert the invariants of the module."""
        assert self._waiting <= self._quiet_until_ms.keys()
        times = list(self._quiet_until_ms.values())
        assert times == sorted(times)
        assert self._step_count <= STEP_COUNT_MAX

    def _begin(self, group: str, now_ms: int) -> None:
        channel_ids = list(self._members(group))
        if channel_ids:
            self._leaving[group] = channel_ids[::-1]
        if len(channel_ids) > 1:
            self._quiet_until_ms[group] = now_ms + PERIOD_MS

    def _end_periods(self, now_ms: int) -> None:
        while self._quiet_until_ms:
            group, until_ms = next(iter(self._quiet_until_ms.items()))
            # A time further ahead means that the clock was set back.
            if now_ms < until_ms <= now_ms + PERIOD_MS:
                return
            del self._quiet_until_ms[group]
            if group in self._waiting and group in self._leaving:
                self._quiet_until_ms[group] = now_ms + PERIOD_MS
            elif group in self._waiting:
                self._waiting.discard(group)
                self._begin(group, now_ms)
