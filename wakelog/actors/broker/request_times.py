"""RequestTimes: how long puts and gets take. A request costs one or two reads of the clock.

    put    from the beginning of a turn to the return of the write for all its requests: the store's
           part in the time of a send. One observation for each turn: they share the write.
    get    one read of a queue; if it has to wait for the disk, also the wait for a thread.

They do not include the wait for a lane, for the sync (`rocketmq_flush_duration_seconds`), or for a
message to arrive.

Source: org.apache.rocketmq.store.StoreStatsService.setPutMessageEntireTimeMax and
setGetMessageEntireTimeMax (4.9.3), which count calls.
"""

import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from wakelog.broker.store_stats import PUT_TIME_BOUNDS_MS, PUT_TIMES_COUNT
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand
from wakelog.telemetry.histogram import Histogram

PULL_MESSAGE = int(RequestCode.PULL_MESSAGE)


class RequestTimes:
    """The clock of one broker's requests. One thread."""

    __slots__ = (
        "_get_seconds",
        "_put_seconds",
        "clock_seconds",
        "get_seconds_max",
        "put_seconds_max",
        "put_times",
    )

    def __init__(self, clock_seconds: Callable[[], float] = time.monotonic) -> None:
        self.clock_seconds = clock_seconds
        self._put_seconds = Histogram()
        self._get_seconds = Histogram()
        self.put_seconds_max = self.get_seconds_max = 0.0
        self.put_times = [0] * PUT_TIMES_COUNT

    def processed(self, request: RemotingCommand, began_seconds: float) -> None:
        """Record that the processor, or a thread of the pool, has finished with a request."""
        if request.code == PULL_MESSAGE:
            self._got(self.clock_seconds() - began_seconds)

    def woken(self, began_seconds: float, count: int) -> None:
        """Record that so many held pulls have read their queues again, one after the other."""
        each = (self.clock_seconds() - began_seconds) / max(count, 1)
        for _ in range(count):
            self._got(each)

    def put(self, seconds: float) -> None:
        """Record how long the puts of a turn took, with their write."""
        self._put_seconds.observe(seconds)
        if seconds > self.put_seconds_max:
            self.put_seconds_max = seconds
        self.put_times[bisect_right(PUT_TIME_BOUNDS_MS, seconds * 1000)] += 1

    def _got(self, seconds: float) -> None:
        self._get_seconds.observe(seconds)
        if seconds > self.get_seconds_max:
            self.get_seconds_max = seconds

    def statistics(self) -> dict[str, Any]:
        """Return both histograms as builtins."""
        return {
            "put_seconds": self._put_seconds.statistics(),
            "get_seconds": self._get_seconds.statistics(),
        }
