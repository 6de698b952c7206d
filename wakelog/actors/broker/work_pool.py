"""WorkPool: the threads for requests whose work may wait for the disk (`RunInPool`).

There are few threads, because more would only queue in the disk. A bounded number of requests waits
for a thread; above it, a request is refused, as 4.9.3 does when a queue is full. Results are
finished a few at a time. So new requests do not wait longer for a consumer that reads from the disk
than for one that reads from memory.

Searches of the index have threads of their own: one for a key of 20,000,000 messages takes two
seconds. One that waited so long that its client has given up is not begun.

Tables are encoded by one thread, one after the other. Four that do it take the interpreter from the
loop again and again: 50 requests for 10,000 topics held up everybody for 80 ms.

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
from typing import Any, Final, TypeAlias

from wakelog.actors.transport.clocks import wall_ms
from wakelog.broker.decision import Outcome, RunInPool
from wakelog.broker.error_response import error_response
from wakelog.network.turn import YIELD_SECONDS
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.steps import Steps

THREADS_COUNT = 4
JUDGING_COUNT: Final = 2
"""One reads while the other's records are judged. More would be judged no sooner."""

SWITCH_SECONDS = 0.0005
"""How long a thread keeps the interpreter when the loop needs it. With Python's 5 ms each system
call of the loop would wait as long for a thread that encodes a large table."""

WAITING_MAX = 10_000  # sendThreadPoolQueueCapacity, the smallest of 4.9.3's

SEARCHING_COUNT: Final = 2
SEARCHES_MAX: Final = 1_000
"""Searches that may wait. They have no share of WAITING_MAX."""

ENCODINGS_MAX: Final = 64
"""Encodings that may wait. Each has a copy of its table: 5 MB for 100,000 topics."""

SEARCH_WAIT_SECONDS_MAX: Final = 10.0
"""mqadmin waits for 6 s, a consumer's queryMessage for 15 s."""

RunSteps: TypeAlias = Callable[[Steps[Any], RemotingCommand, Callable[[Any], None]], None]
"""Does the steps of a request on the loop, and gives a function their result, or an error response
if they failed or were refused."""


class WorkPool:
    """Threads and the requests that wait for them. Called on one loop's thread."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS_COUNT, thread_name_prefix="broker-pool")
        self._judging = ThreadPoolExecutor(JUDGING_COUNT, thread_name_prefix="broker-judging")
        self._searching = ThreadPoolExecutor(SEARCHING_COUNT, thread_name_prefix="broker-search")
        self._searches_count = 0
        self._encoding = ThreadPoolExecutor(1, thread_name_prefix="broker-encoding")
        self._encodings_count = 0
        self._awaited: set[Future[Any]] = set()
        self._closing = threading.Lock()
        self._is_closed = False
        self._results: deque[Callable[[], None]] = deque()
        self._is_finishing = False
        self.waiting_count = 0
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

        run_steps: needed for work that judges.
        """
        waiting_count, waiting_max = self.waiting_count, WAITING_MAX
        if deferred.searches:
            waiting_count, waiting_max = self._searches_count, SEARCHES_MAX
        elif deferred.encodes:
            waiting_count, waiting_max = self._encodings_count, ENCODINGS_MAX
        if waiting_count >= waiting_max:
            self.refused_count += 1
            what = "a table" if deferred.encodes else "the disk"
            remark = f"[OVERLOAD]system busy, {waiting_count} requests wait for {what}"
            done(answer(request, ResponseCode.SYSTEM_BUSY, remark))
            return
        self._count(deferred, 1)
        self.run_count += 1

        def finish(result: asyncio.Future[Any]) -> None:
            self._count(deferred, -1)
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

        self._begin(request, deferred, run_steps).add_done_callback(keep)

    def _begin(
        self, request: RemotingCommand, deferred: RunInPool, run_steps: RunSteps | None
    ) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        if deferred.judges:
            assert run_steps is not None
            do_steps = partial(self._do_steps, loop, run_steps, request)
            return loop.run_in_executor(self._judging, deferred.work, do_steps)
        if deferred.searches:
            begin_seconds_max = time.monotonic() + SEARCH_WAIT_SECONDS_MAX
            search = partial(self._search, deferred.work, begin_seconds_max)
            return loop.run_in_executor(self._searching, search)
        if deferred.encodes:
            return loop.run_in_executor(self._encoding, deferred.work)
        return self.submit(deferred.work)

    def _search(self, work: Callable[[], Any], begin_seconds_max: float) -> Any:
        """Do a search, unless it has waited too long; in a thread."""
        if self._is_closed:
            raise _closed()
        late_seconds = time.monotonic() - begin_seconds_max
        if late_seconds > 0:
            waited_ms = int((SEARCH_WAIT_SECONDS_MAX + late_seconds) * 1_000)
            remark = f"[TIMEOUT_CLEAN_QUEUE]system busy, other searches took {waited_ms} ms"
            raise RemoteProtocolError(ResponseCode.SYSTEM_BUSY, remark)
        return work()

    def _count(self, deferred: RunInPool, change: int) -> None:
        if deferred.searches:
            self._searches_count += change
        elif deferred.encodes:
            self._encodings_count += change
        else:
            self.waiting_count += change

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
        """Run work in a thread; the future has its result."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def try_to(self, work: Callable[[], Any]) -> None:
        """Run work without a result, unless all threads are busy; a later read meets its error."""
        if self.waiting_count < THREADS_COUNT:
            self.submit(work).add_done_callback(asyncio.Future.exception)

    def statistics(self) -> dict[str, int]:
        """Return counters."""
        return {
            "waiting_count": self.waiting_count + self._searches_count + self._encodings_count,
            "run_count": self.run_count,
            "refused_count": self.refused_count,
        }

    def close(self) -> None:
        """End the threads once their work is done; what judges fails."""
        with self._closing:
            self._is_closed = True
            awaited, self._awaited = self._awaited, set()
        for one in awaited:
            one.set_exception(_closed())
        self._searching.shutdown()
        self._encoding.shutdown()
        self._judging.shutdown()
        self._threads.shutdown()


def _closed() -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops")
