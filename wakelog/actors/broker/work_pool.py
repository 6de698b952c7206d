"""WorkPool: the threads for requests whose work may wait for the disk (`RunInPool`).

Each kind of work has threads of its own, so that it waits for no other: the search for a key of
20,000,000 messages takes two seconds. There are few threads, because more would only queue in the
disk, or take the interpreter from the loop again and again. A bounded number of requests waits for
a thread; above it, a request is refused, as 4.9.3 does when a queue is full.

Results are finished a few at a time. So new requests do not wait longer for a consumer that reads
from the disk than for one that reads from memory.

Invariant: no request's work begins after `close`, or when its client has given up.

Source: org.apache.rocketmq.broker.BrokerController.queryMessageExecutor and the pull executor's
cold reads (4.9.3).
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from wakelog.actors.transport.clocks import wall_ms
from wakelog.broker.decision import Outcome, RunInPool, WorkKind
from wakelog.broker.error_response import error_response
from wakelog.network.turn import YIELD_SECONDS
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.steps import Steps

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
    # One reads while the other's records are judged. More would be judged no sooner.
    WorkKind.JUDGE: KindLimits(2, 10_000, "the disk"),
    # mqadmin waits for 6 s, a consumer's queryMessage for 15 s.
    WorkKind.SEARCH: KindLimits(2, 1_000, "the index", wait_seconds_max=10.0),
    # As in 4.9.3, where tools have other threads than clients that query.
    WorkKind.SURVEY: KindLimits(2, 1_000, "the queues", wait_seconds_max=10.0),
    # With four threads 50 requests for 10,000 topics held up everybody for 80 ms. Each that waits
    # has a copy of its table: 5 MB for 100,000 topics.
    WorkKind.ENCODE: KindLimits(1, 64, "a table"),
}

RunSteps: TypeAlias = Callable[[Steps[Any], RemotingCommand, Callable[[Any], None]], None]
"""Does the steps of a request on the loop, and gives a function their result, or an error response
if they failed or were refused."""


class WorkPool:
    """Threads and the requests that wait for them. Called on one loop's thread."""

    def __init__(self) -> None:
        self._threads = {
            kind: ThreadPoolExecutor(limits.threads_count, f"broker-{kind}")
            for kind, limits in LIMITS.items()
        }
        self._waiting_counts = dict.fromkeys(LIMITS, 0)
        self._awaited: set[Future[Any]] = set()
        self._closing = threading.Lock()
        self._is_closed = False
        self._results: deque[Callable[[], None]] = deque()
        self._is_finishing = False
        self._waiting_bytes = 0
        self.refused_count = 0
        self.run_count = 0

    def run(
        self,
        request: RemotingCommand,
        deferred: RunInPool,
        done: Callable[[Outcome], None],
        run_steps: RunSteps | None = None,
    ) -> None:
        """Run the work in a thread, finish it on the loop, and give `done` the outcome.

        run_steps: needed to judge.
        """
        kind, size_bytes = deferred.kind, request.size_bytes
        limits, waiting_count = LIMITS[kind], self._waiting_counts[kind]
        is_full = self._waiting_bytes + size_bytes > WAITING_BYTES_MAX
        if is_full or waiting_count >= limits.waiting_max:
            self.refused_count += 1
            remark = f"[OVERLOAD]system busy, {waiting_count} requests wait for {limits.waits_for}"
            done(answer(request, ResponseCode.SYSTEM_BUSY, remark))
            return
        self._waiting_counts[kind] += 1
        self._waiting_bytes += size_bytes
        self.run_count += 1

        def finish(result: asyncio.Future[Any]) -> None:
            self._waiting_counts[kind] -= 1
            self._waiting_bytes -= size_bytes
            outcome: Outcome
            try:
                outcome = deferred.finish(result.result(), wall_ms())
            except Exception as error:
                outcome = error_response(request, error)
            done(outcome)

        def keep(result: asyncio.Future[Any]) -> None:
            self._results.append(partial(finish, result))
            if not self._is_finishing:
                self._is_finishing = True
                asyncio.get_running_loop().call_soon(self._finish_results)

        loop, work = asyncio.get_running_loop(), deferred.work
        if kind is WorkKind.JUDGE:
            assert run_steps is not None
            work = partial(work, partial(self._do_steps, loop, run_steps, request))
        begin = partial(self._begin, work, limits, time.monotonic())
        loop.run_in_executor(self._threads[kind], begin).add_done_callback(keep)

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

    def _do_steps(
        self,
        loop: asyncio.AbstractEventLoop,
        run_steps: RunSteps,
        request: RemotingCommand,
        steps: Steps[Any],
    ) -> Any:
        """Have steps done on the loop, and wait for their result; in a thread."""
        awaited: Future[Any] = Future()
        with self._closing:
            if self._is_closed:
                raise _closed()
            self._awaited.add(awaited)

        def done(result: Any) -> None:
            self._awaited.discard(awaited)
            if awaited.done():
                return  # the pool is closed
            if isinstance(result, RemotingCommand):
                awaited.set_exception(RemoteProtocolError(result.code, result.remark or ""))
            else:
                awaited.set_result(result)

        loop.call_soon_threadsafe(run_steps, steps, request, done)
        return awaited.result()

    def _finish_results(self) -> None:
        """Finish results until the pulls' share of a turn is over."""
        end_seconds = time.monotonic() + YIELD_SECONDS
        try:
            while self._results:
                self._results.popleft()()
                if time.monotonic() >= end_seconds:
                    break
        finally:
            self._is_finishing = bool(self._results)
            if self._is_finishing:
                asyncio.get_running_loop().call_soon(self._finish_results)

    def submit(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run work of no request in a thread that reads; the future has its result."""
        return asyncio.get_running_loop().run_in_executor(self._threads[WorkKind.READ], work)

    def try_to(self, work: Callable[[], Any]) -> None:
        """Run work without a result, unless all threads are busy; a later read meets its error."""
        if self._waiting_counts[WorkKind.READ] < LIMITS[WorkKind.READ].threads_count:
            self.submit(work).add_done_callback(asyncio.Future.exception)

    def statistics(self) -> dict[str, int]:
        """Return counters."""
        return {
            "waiting_count": sum(self._waiting_counts.values()),
            "run_count": self.run_count,
            "refused_count": self.refused_count,
        }

    def close(self) -> None:
        """End the threads once the work that has begun is done; what waits for steps fails."""
        with self._closing:
            self._is_closed = True
            awaited, self._awaited = self._awaited, set()
        for one in awaited:
            one.set_exception(_closed())
        for threads in self._threads.values():
            threads.shutdown()


def _closed() -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops")
