"""RequestTimes: how long puts and gets take, for the cost of reading the clock once a request.

    put    from the first request of a turn to the return of the write of all it put: what the
           store adds to the time of a send. One observation a turn, since they share the write.
    get    a look at a queue, with what was found; of one that had to wait for the disk also the
           wait for a thread and the read.

Waiting for a lane, for the disk to have it (`rocketmq_flush_duration_seconds`) and for a message
to come are not in them.

Source: org.apache.rocketmq.store.StoreStatsService.setPutMessageEntireTimeMax and
setGetMessageEntireTimeMax (4.9.3), which keep the longest only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from wakelog.broker.decision import Outcome
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand
from wakelog.telemetry.histogram import Histogram

PULL_MESSAGE = int(RequestCode.PULL_MESSAGE)


class RequestTimes:
    """The clock of one broker's requests. One thread."""

    __slots__ = ("_clock_seconds", "_get_seconds", "_put_seconds", "_turn_began")

    def __init__(self, clock_seconds: Callable[[], float] = time.perf_counter) -> None:
        """Begin with no turn under way."""
        self._clock_seconds = clock_seconds
        self._put_seconds = Histogram()
        self._get_seconds = Histogram()
        self._turn_began = 0.0

    def began(self) -> float:
        """Return the time at which a request is taken up; the first one begins a turn."""
        now = self._clock_seconds()
        if not self._turn_began:
            self._turn_began = now
        return now

    def processed(self, request: RemotingCommand, began: float) -> None:
        """Note that a request is answered, or waits for more than the processor."""
        if request.code == PULL_MESSAGE:
            self._get_seconds.observe(self._clock_seconds() - began)

    def woken(self, began: float, count: int) -> None:
        """Note that so many held pulls have looked at their queues again, one after the other."""
        each = (self._clock_seconds() - began) / max(count, 1)
        for _ in range(count):
            self._get_seconds.observe(each)

    def in_pool(
        self, request: RemotingCommand, done: Callable[[Outcome], None]
    ) -> Callable[[Outcome], None]:
        """Return `done`, with a note of the time in the pool before it if the request is a get."""
        if request.code != PULL_MESSAGE:
            return done
        began = self._clock_seconds()

        def note(outcome: Outcome) -> None:
            self._get_seconds.observe(self._clock_seconds() - began)
            done(outcome)

        return note

    def end_turn(self, *, has_put: bool) -> None:
        """Note the turn's end; it put something if the log has grown."""
        began, self._turn_began = self._turn_began, 0.0
        if has_put and began:
            self._put_seconds.observe(self._clock_seconds() - began)

    def statistics(self) -> dict[str, Any]:
        """Return both histograms as builtins."""
        return {
            "put_seconds": self._put_seconds.statistics(),
            "get_seconds": self._get_seconds.statistics(),
        }
