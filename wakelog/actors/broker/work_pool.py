"""WorkPool: the threads for requests whose work may wait for the disk (`InPool`).

Each kind of work has threads of its own, so that it waits for no other: the search for a key of
20,000,000 messages takes two seconds. There are few threads, because more would only queue in the
disk, or take the interpreter from the loop again and again. A bounded number of requests waits for
a thread; above it, a request is refused, as 4.9.3 does when a queue is full.

Invariant: no request's work begins after `close`, or when its client has given up.

Source: org.apache.rocketmq.broker.BrokerController.queryMessageExecutor and the pull executor's
cold reads (4.9.3).
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

from wakelog.broker.effects import InPool, WorkKind
from wakelog.network.driver import Task
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError

SWITCH_SECONDS = 0.0005
"""How long a thread keeps the interpreter when the loop needs it. With Python's 5 ms each system
call of the loop would wait as long for a thread that encodes a large table."""

WAITING_BYTES_MAX: Final = 67_108_864
"""Of the requests that wait, of all kinds: one may have a MiB."""


class KindLimits(NamedTuple):
    """How much work of one kind runs at once, and how much may wait for what, and how long."""

    threads_count: int
    waiting_max: int
    waits_for: str
    wait_seconds_max: float = inf


LIMITS: Final = {
    # sendThreadPoolQueueCapacity, the smallest of 4.9.3's
    WorkKind.READ: KindLimits(4, 10_000, "the disk"),
    # mqadmin waits for 6 s, a consumer's queryMessage for 15 s.
    WorkKind.SEARCH: KindLimits(2, 1_000, "the index", wait_seconds_max=10.0),
    # As in 4.9.3, where tools have other threads than clients that query.
    WorkKind.SURVEY: KindLimits(2, 1_000, "the queues", wait_seconds_max=10.0),
    # With four threads 50 requests for 10,000 topics held up everybody for 80 ms. Each that waits
    # has a copy of its table: 5 MB for 100,000 topics.
    WorkKind.ENCODE: KindLimits(1, 64, "a table"),
}


class WorkPool:
    """Threads and the requests that wait for them. Called on one loop's thread."""

    def __init__(self) -> None:
        self._threads = {
            kind: ThreadPoolExecutor(limits.threads_count, f"broker-{kind}")
            for kind, limits in LIMITS.items()
        }
        self._waiting_counts = dict.fromkeys(LIMITS, 0)
        self._submitted_count = 0
        self._is_closed = False
        self._waiting_bytes = 0
        self.refused_count = 0
        self.run_count = 0

    def run(self, effect: InPool, task: Task) -> None:
        """Run the work in a thread; the task gets its result or what it raises.

        Raises: RemoteProtocolError if too much waits.
        """
        kind, size_bytes = effect.kind, task.request.size_bytes
        limits, waiting_count = LIMITS[kind], self._waiting_counts[kind]
        is_full = self._waiting_bytes + size_bytes > WAITING_BYTES_MAX
        if is_full or waiting_count >= limits.waiting_max:
            self.refused_count += 1
            remark = f"[OVERLOAD]system busy, {waiting_count} requests wait for {limits.waits_for}"
            raise RemoteProtocolError(ResponseCode.SYSTEM_BUSY, remark)
        self._waiting_counts[kind] += 1
        self._waiting_bytes += size_bytes
        self.run_count += 1

        def done(ended: asyncio.Future[Any]) -> None:
            self._waiting_counts[kind] -= 1
            self._waiting_bytes -= size_bytes
            error = ended.exception()
            task.resume(None if error is not None else ended.result(), error)

        loop = asyncio.get_running_loop()
        begin = partial(self._begin, effect.work, limits, time.monotonic())
        loop.run_in_executor(self._threads[kind], begin).add_done_callback(done)

    def _begin(self, work: Callable[[], Any], limits: KindLimits, since_seconds: float) -> Any:
        """Do work, unless it has waited too long; in a thread."""
        if self._is_closed:
            raise _closed()
        waited_seconds = time.monotonic() - since_seconds
        if waited_seconds > limits.wait_seconds_max:
            waited = f"waited for {limits.waits_for} for {int(waited_seconds * 1_000)} ms"
            remark = f"[TIMEOUT_CLEAN_QUEUE]system busy, {waited}"
            raise RemoteProtocolError(ResponseCode.SYSTEM_BUSY, remark)
        return work()

    def submit(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run work of no request in a thread that reads; the future has its result."""
        loop = asyncio.get_running_loop()
        submitted = loop.run_in_executor(self._threads[WorkKind.READ], work)
        self._submitted_count += 1
        submitted.add_done_callback(self._submitted_ended)
        return submitted

    def _submitted_ended(self, _ended: asyncio.Future[Any]) -> None:
        self._submitted_count -= 1

    def try_to(self, work: Callable[[], Any]) -> None:
        """Run work without a result, unless all threads are busy; a later read meets its error."""
        busy_count = self._waiting_counts[WorkKind.READ] + self._submitted_count
        if busy_count < LIMITS[WorkKind.READ].threads_count:
            self.submit(work).add_done_callback(asyncio.Future.exception)

    def statistics(self) -> dict[str, int]:
        """Return counters."""
        return {
            "waiting_count": sum(self._waiting_counts.values()),
            "run_count": self.run_count,
            "refused_count": self.refused_count,
        }

    def close(self) -> None:
        """End the threads once the work that has begun is done."""
        self._is_closed = True
        for threads in self._threads.values():
            threads.shutdown()


def _closed() -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops")
