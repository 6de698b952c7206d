"""ConsumerNotices: when to notify the members of a consumer group that it has changed (code 40).

The first change of a group is notified at once. A period of the group follows: changes in it
go together at its end. A member that learns late of another consumes what both hold, so the period
is short: ``MEMBER_PERIOD_MS`` for each member, and at most ``PERIOD_MS_MAX``. A group of one member
has none. So a group causes some 1,000 notices a second, however many members come and go: else the
first of 5,000 members that join one by one would get 5,000.

Notices leave in steps, because each is a frame for another connection. Groups take turns with one
notice each: a small group does not wait for a crowd of another one. A group whose last notices have
not left waits for another period.

    note(group) -> [members listed] -> take: STEP_COUNT_MAX each STEP_MS
               \\-> waiting until the end of its period -/

Invariants:
    - a group waits only if a period of it is under way.
    - a group has one period at a time; ``_ends`` has the end of each, the earliest first.

Source: org.apache.rocketmq.broker.client.DefaultConsumerIdsChangeListener (4.9.3), which notifies
every member at every change.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final

MEMBER_PERIOD_MS: Final = 1
PERIOD_MS_MAX: Final = 1_000
STEP_MS: Final = 10

STEP_COUNT_MAX: Final = 64
"""Some 1 ms of the loop: 6,400 notices a second take a tenth of it."""


class ConsumerNotices:
    """The groups to notify now, and those that have to wait.

    leaving, waiting: the groups of each kind; read only. Notices are left if one is not empty.
    """

    def __init__(self, members: Callable[[str], Iterable[int]]) -> None:
        """Start with none; ``members(group)`` returns the connections of a group now."""
        self._members = members
        self._quiet: set[str] = set()
        self._ends: list[tuple[int, str]] = []
        self.waiting: set[str] = set()
        self.leaving: dict[str, list[int]] = {}
        self._step_began_ms = 0
        self._step_count = 0

    def note(self, group: str, now_ms: int) -> None:
        """Have the members of a group notified, now or at the end of its period."""
        self._end_periods(now_ms)
        if group in self.leaving and group not in self._quiet:
            self._begin_period(group, now_ms)
        if group in self._quiet:
            self.waiting.add(group)
        else:
            self._begin(group, now_ms)

    def take(self, now_ms: int) -> list[tuple[str, int]]:
        """Return the group and the connection of each notice that may leave now."""
        self._end_periods(now_ms)
        if not 0 <= now_ms - self._step_began_ms < STEP_MS:
            self._step_began_ms, self._step_count = now_ms, 0
        notices: list[tuple[str, int]] = []
        while self.leaving and self._step_count < STEP_COUNT_MAX:
            group = next(iter(self.leaving))
            channel_ids = self.leaving.pop(group)
            notices.append((group, channel_ids.pop()))
            self._step_count += 1
            if channel_ids:
                self.leaving[group] = channel_ids  # behind the others
        return notices

    def next_ms(self) -> int | None:
        """Return when ``take`` next has notices, None if nothing is pending."""
        if self.leaving:
            return self._step_began_ms + STEP_MS
        return self._ends[0][0] if self.waiting else None

    def validate(self) -> None:
        """Assert the invariants of the module."""
        assert self.waiting <= self._quiet
        assert sorted(group for _, group in self._ends) == sorted(self._quiet)
        assert self._step_count <= STEP_COUNT_MAX
        assert all(self.leaving.values())

    def _begin(self, group: str, now_ms: int) -> None:
        channel_ids = list(self._members(group))
        if channel_ids:
            self.leaving[group] = channel_ids[::-1]
        if len(channel_ids) > 1:
            self._begin_period(group, now_ms)

    def _begin_period(self, group: str, now_ms: int) -> None:
        members_count = sum(1 for _ in self._members(group))
        # All may have left meanwhile; a period that ends as it begins would never end.
        period_ms = min(max(members_count, 1) * MEMBER_PERIOD_MS, PERIOD_MS_MAX)
        heappush(self._ends, (now_ms + period_ms, group))
        self._quiet.add(group)

    def _end_periods(self, now_ms: int) -> None:
        # An end further ahead than any period means that the clock was set back.
        while self._ends and not now_ms < self._ends[0][0] <= now_ms + PERIOD_MS_MAX:
            _, group = heappop(self._ends)
            self._quiet.discard(group)
            if group in self.waiting and group in self.leaving:
                self._begin_period(group, now_ms)
            elif group in self.waiting:
                self.waiting.discard(group)
                self._begin(group, now_ms)
