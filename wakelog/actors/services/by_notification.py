"""The lines on words and notifications: store the word, ring, and look at words when a notification
comes back.

Every line has the one on references behind it: for what has to arrive (all held pulls, told to a
PullHold that starts anew), and for a notification that was lost. That is noticed by a timer which
runs only while a word says that work is outstanding, and which finds no progress since it looked
last.

While no pull is held Reput's notification waits `PACE_SECONDS`, so that one message after the other
does not wake a process each: nobody would see the queues sooner. Whoever waits for the queues, or
has a pull held, has it rung at once (`hurry`).

Source: org.apache.rocketmq.store.DefaultMessageStore.ReputMessageService.run (4.9.3), which sleeps
1 ms between any two looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from wakelog.actors.services.broker_events import RECHECK_SECONDS, BrokerEvents, hold_note
from wakelog.actors.services.by_reference import ReferenceDispatch
from wakelog.actors.services.pull_hold import HoldNote
from wakelog.actors.transport.notifications import Notifier
from wakelog.actors.transport.shared_watermarks import SharedWatermark, SharedWatermarks
from wakelog.broker.decision import HoldPull

PACE_SECONDS = 0.02
"""A step costs Reput as much as 10 messages do. Whoever looks at queues waits for what was
acknowledged before (`broker/read_after_write.py`), and has the notification rung."""


class BellDispatch:
    """To Reput."""

    def __init__(
        self,
        page: SharedWatermarks,
        line: Notifier,
        by_reference: ReferenceDispatch,
        events: BrokerEvents,
    ) -> None:
        """Ring over `line`; `by_reference` is what helps when that does not."""
        self._page = page
        self._line = line
        self._by_reference = by_reference
        self._events = events
        self._pace: asyncio.TimerHandle | None = None
        self._readable = self._dispatched = page.get(SharedWatermark.DISPATCHED)
        self._seen = 0
        self._timer: asyncio.TimerHandle | None = None
        self.rechecked_count = 0

    def readable(self, physical_offset: int) -> None:
        """Have the log dispatched up to here."""
        self._readable = physical_offset
        self._page.set(SharedWatermark.READABLE, physical_offset)
        if self._events.is_awaited():
            self._notify()
        elif self._pace is None:
            self._pace = asyncio.get_running_loop().call_later(PACE_SECONDS, self._notify)
        if self._timer is None:
            self._look_later()

    def hurry(self) -> None:
        """Ring now if the notification was to wait."""
        if self._pace is not None:
            self._notify()

    def look(self) -> None:
        """Take over how far dispatch has come."""
        dispatched = self._page.get(SharedWatermark.DISPATCHED)
        if dispatched > self._dispatched:
            self._dispatched = dispatched
            self._events.dispatched(dispatched)

    def stop_timer(self) -> None:
        """Ring no more and look no more."""
        for timer in (self._timer, self._pace):
            if timer is not None:
                timer.cancel()
        self._timer = self._pace = None

    def _notify(self) -> None:
        if self._pace is not None:
            self._pace.cancel()
            self._pace = None
        self._line.notify()

    def _look_later(self) -> None:
        self._seen = self._dispatched
        self._timer = asyncio.get_running_loop().call_later(RECHECK_SECONDS, self._recheck)

    def _recheck(self) -> None:
        self._timer = None
        self.look()
        if self._dispatched >= self._readable:
            return
        if self._dispatched == self._seen:
            self.rechecked_count += 1
            self._by_reference.attached(self._dispatched)
            self._by_reference.readable(self._readable)
        self._look_later()


class BellHolds:
    """To PullHold."""

    def __init__(self, line: Notifier) -> None:
        """Send notes over `line`."""
        self._line = line

    def hold(self, notes: Iterable[HoldPull]) -> None:
        """Tell of pulls that wait."""
        self._line.send((int(HoldNote.HOLD), *hold_note(note)) for note in notes)

    def forget(self, hold_ids: Iterable[int]) -> None:
        """Tell of pulls that wait no more."""
        self._line.send((int(HoldNote.FORGET), hold_id) for hold_id in hold_ids)
