"""The Broker's end of delayed messages: ask Schedule what is due, deliver, say how far that came.

Schedule is asked when it said it should be, and when delayed messages have reached the queues, but
then no more often than every `GROWN_SECONDS`, which is how often 4.9.3 looks at its queues. It is
asked besides when the clock was set: what it said was of the clock as it was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from wakelog.actors.services.schedule import Due
from wakelog.actors.transport.batching import BatchWorker
from wakelog.actors.transport.service_client import ServiceClient, ServiceLost
from wakelog.broker.schedule import DueMessage
from wakelog.storage.errors import StoreError
from wakelog.telemetry.logs import Log, logger

GROWN_SECONDS = 0.1
FAILED_SECONDS = 1.0
"""After a disk that did not give a message that is due: Schedule has it due again by then."""
CLOCK_SECONDS = 1.0
"""How often the clock is looked at; a message is so late at most where it was set."""
CLOCK_STEP_SECONDS_MIN = 0.02

Deliver = Callable[[Sequence[DueMessage]], Awaitable[Mapping[int, int]]]
"""Puts messages into their real topics; returns the next queue offset of each level."""


class ScheduleClient:
    """To Schedule, by calls whatever the transport."""

    def __init__(
        self,
        schedule: ServiceClient,
        epoch: int,
        deliver: Deliver,
        log_begin: Callable[[], int],
        *,
        log_end: int,
        delivers: bool = True,
    ) -> None:
        """Ask nothing until the queues are known to reach somewhere.

        log_end: where the log ends; below it there may be delayed messages not in queues yet.
        delivers: False on a slave, whose master delivers.
        """
        self._delivers = delivers
        self._schedule = schedule
        self._epoch = epoch
        self._deliver = deliver
        self._log_begin = log_begin
        self._dispatched = 0
        self._asked_dispatched = -1
        self._parked_end = log_end
        self._positions: dict[int, int] = {}
        self._worker = BatchWorker("delay", self._look)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._clock_timer: asyncio.TimerHandle | None = None
        self._clock_ahead_seconds = 0.0
        self._log = logger(Log.STORE_ERROR)
        self.delivered_count = 0

    def parked(self, log_end: int) -> None:
        """Note that a delayed message was put, somewhere below `log_end`."""
        self._parked_end = log_end

    def grown(self, dispatched: int) -> None:
        """Note how far the queues reach."""
        self._dispatched = dispatched
        if self._delivers and not self._worker.is_running:
            self._look_for_parked()

    def attached(self) -> None:
        """Begin with a Schedule that was attached."""
        self._asked_dispatched = -1
        if self._delivers:
            self._worker.ask()
            self._cancel_timers()
            self._watch_clock()

    async def stop(self) -> None:
        """Ask for nothing more; what is being delivered is delivered."""
        self._delivers = False
        self._cancel_timers()
        await self._worker.wait_idle()

    def statistics(self) -> dict[str, Any]:
        """Return how many messages were delivered or found undeliverable."""
        return {"delivered_count": self.delivered_count}

    async def _look(self) -> bool:
        positions, self._positions = self._positions, {}
        self._asked_dispatched = self._dispatched
        try:
            answer: Due = await self._schedule.ask(
                "delay", "look", self._epoch, self._log_begin(), self._dispatched, positions
            )
        except ServiceLost:
            return False  # a Schedule that starts anew begins at the Broker's positions
        listed, wait_ms = answer
        if listed:
            try:
                self._positions = dict(await self._deliver([DueMessage(*one) for one in listed]))
            except StoreError as error:
                self._log.error("delayed messages not delivered", cause=str(error))
                self._look_in(FAILED_SECONDS)
                return False
            self.delivered_count += len(listed)
            return True
        self._look_in(wait_ms / 1000)
        self._look_for_parked()
        return False

    def _look_for_parked(self) -> None:
        asked = self._asked_dispatched
        if asked < self._parked_end and asked < self._dispatched:
            self._look_in(GROWN_SECONDS)

    def _look_in(self, seconds: float) -> None:
        if not self._delivers:
            return  # stopped meanwhile
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = loop.call_at(at, self._timed)

    def _watch_clock(self) -> None:
        """Ask anew each time the wall clock went otherwise than the loop's, which cannot be set."""
        loop = asyncio.get_running_loop()
        ahead_seconds = time.time() - loop.time()
        if abs(ahead_seconds - self._clock_ahead_seconds) > CLOCK_STEP_SECONDS_MIN:
            self._clock_ahead_seconds = ahead_seconds
            self._worker.ask()
        self._clock_timer = loop.call_later(CLOCK_SECONDS, self._watch_clock)

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._clock_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._clock_timer = None

    def _timed(self) -> None:
        self._timer = None
        self._worker.ask()
