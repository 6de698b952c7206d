"""Work runs in a thread, and is refused when too much waits."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import pytest

from tests.actors.bounded import run
from wakelog.actors.broker import work_pool
from wakelog.actors.broker.work_pool import LIMITS, KindLimits, WorkPool
from wakelog.broker.effects import InPool, WorkKind
from wakelog.network.driver import Task
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError

REQUEST = RemotingCommand(code=11, opaque=1)


class FakeTask:
    """What the pool has of a task: its request, and how it goes on."""

    def __init__(self, request: RemotingCommand = REQUEST) -> None:
        self.request = request
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def resume(self, result: Any = None, error: BaseException | None = None) -> None:
        if error is None:
            self.done.set_result(result)
        else:
            self.done.set_exception(error)


async def result_of(pool: WorkPool, effect: InPool) -> Any:
    task = FakeTask()
    pool.run(effect, cast(Task, task))
    return await task.done


async def refusal_of(pool: WorkPool, effect: InPool) -> Any:
    """Return what work raises in the place of a result."""
    with pytest.raises(RemoteProtocolError) as raised:
        await result_of(pool, effect)
    return raised.value


def limit(monkeypatch: pytest.MonkeyPatch, kind: WorkKind, **limits: Any) -> None:
    monkeypatch.setitem(LIMITS, kind, LIMITS[kind]._replace(**limits))


def run_with_pool(body: Callable[[WorkPool], Awaitable[None]]) -> None:
    async def main() -> None:
        pool = WorkPool()
        await body(pool)
        pool.close()

    run(main)


def test_work_is_done_elsewhere_and_finished_here() -> None:
    async def body(pool: WorkPool) -> None:
        threads: list[threading.Thread] = []

        def work() -> int:
            threads.append(threading.current_thread())
            return 42

        assert await result_of(pool, InPool(work)) == 42
        assert threads[0] is not threading.main_thread()
        assert pool.statistics() == {"waiting_count": 0, "run_count": 1, "refused_count": 0}

    run_with_pool(body)


def test_what_raises_is_raised() -> None:
    async def body(pool: WorkPool) -> None:
        def fail() -> None:
            raise OSError("EIO")

        with pytest.raises(OSError, match="EIO"):
            await result_of(pool, InPool(fail))

    run_with_pool(body)


def test_too_much_waiting_work_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, WorkKind.READ, waiting_max=2)

    async def body(pool: WorkPool) -> None:
        gate = threading.Event()
        blocked = InPool(gate.wait)
        outcomes = [asyncio.ensure_future(result_of(pool, blocked)) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await refusal_of(pool, blocked)
        assert refused.code == ResponseCode.SYSTEM_BUSY and "2 requests wait" in refused.remark
        gate.set()
        assert await asyncio.gather(*outcomes) == [True, True]

    run_with_pool(body)


@pytest.mark.parametrize(
    ("waited_ms", "remark"),
    [(4_999, ""), (5_000, ""), (5_001, "waited for a thread that reads for 5001 ms")],
)
def test_work_that_has_waited_too_long_is_not_begun(
    monkeypatch: pytest.MonkeyPatch, waited_ms: int, remark: str
) -> None:
    limits = KindLimits(1, 1, "a thread that reads", 5.0)
    monkeypatch.setattr("time.monotonic", lambda: 64.0 + waited_ms / 1_000)
    pool = WorkPool()
    try:
        if not remark:
            assert pool._begin(lambda: 42, limits, 64.0) == 42
            return
        with pytest.raises(RemoteProtocolError, match=remark) as refused:
            pool._begin(lambda: 42, limits, 64.0)
        assert refused.value.code == ResponseCode.SYSTEM_BUSY
    finally:
        pool.close()


def test_searches_hold_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, WorkKind.SEARCH, waiting_max=6)

    async def body(pool: WorkPool) -> None:
        gate = threading.Event()
        search = InPool(gate.wait, WorkKind.SEARCH)
        searches = [asyncio.ensure_future(result_of(pool, search)) for _ in range(6)]
        await asyncio.sleep(0)
        refused = await refusal_of(pool, search)
        assert refused.code == ResponseCode.SYSTEM_BUSY and "6 requests wait" in refused.remark
        assert await result_of(pool, InPool(int)) == 0
        assert pool.statistics() == {"waiting_count": 6, "run_count": 7, "refused_count": 1}
        gate.set()
        assert await asyncio.gather(*searches) == [True] * 6

    run_with_pool(body)


def test_tables_are_encoded_one_after_the_other_and_hold_up_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit(monkeypatch, WorkKind.ENCODE, waiting_max=3)

    async def body(pool: WorkPool) -> None:
        gate, at_once, most = threading.Event(), [0], [0]

        def work() -> None:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
            gate.wait()
            at_once[0] -= 1

        encoding = InPool(work, WorkKind.ENCODE)
        encodings = [asyncio.ensure_future(result_of(pool, encoding)) for _ in range(3)]
        await asyncio.sleep(0)
        refused = await refusal_of(pool, encoding)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert "3 requests wait for a table" in refused.remark
        for _ in range(LIMITS[WorkKind.READ].threads_count + 1):
            assert await result_of(pool, InPool(int)) == 0
        gate.set()
        assert await asyncio.gather(*encodings) == [None] * 3
        assert most == [1]
        assert pool.statistics()["waiting_count"] == 0

    run_with_pool(body)


def test_a_search_whose_client_has_given_up_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, WorkKind.SEARCH, wait_seconds_max=-1.0)

    async def body(pool: WorkPool) -> None:
        begun: list[int] = []
        search = InPool(partial(begun.append, 1), WorkKind.SEARCH)
        late = await refusal_of(pool, search)
        assert late.code == ResponseCode.SYSTEM_BUSY and not begun
        assert late.remark.startswith("[TIMEOUT_CLEAN_QUEUE]system busy, waited for the index for")

    run_with_pool(body)


def test_work_without_a_result_is_dropped_while_threads_are_busy() -> None:
    async def body(pool: WorkPool) -> None:
        done = threading.Event()
        gate = threading.Event()
        pool.try_to(done.set)
        assert await asyncio.to_thread(done.wait, 5.0)
        outcomes = [
            asyncio.ensure_future(result_of(pool, InPool(gate.wait)))
            for _ in range(LIMITS[WorkKind.READ].threads_count)
        ]
        await asyncio.sleep(0)
        ran: list[int] = []
        pool.try_to(partial(ran.append, 1))
        gate.set()
        await asyncio.gather(*outcomes)
        pool.close()  # after all that was begun
        assert ran == []

    run_with_pool(body)


def test_work_of_no_request_keeps_threads_busy_too() -> None:
    """Else what pulls have read ahead would queue without a limit."""

    async def body(pool: WorkPool) -> None:
        gate = threading.Event()
        submitted = pool.submit(gate.wait)
        ran: list[int] = []
        threads_count = LIMITS[WorkKind.READ].threads_count

        def read_ahead() -> None:
            gate.wait()
            ran.append(1)

        for _ in range(threads_count + 3):
            pool.try_to(read_ahead)
        gate.set()
        await submitted
        async with asyncio.timeout(30.0):
            while 2 not in ran:  # once the threads are free
                pool.try_to(partial(ran.append, 2))
                await asyncio.sleep(0.001)
        pool.close()
        assert ran.count(1) == threads_count - 1

    run_with_pool(body)


def test_work_that_has_not_begun_at_the_end_never_does(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, WorkKind.READ, threads_count=1)

    async def body(pool: WorkPool) -> None:
        gate, begun = threading.Event(), list[int]()
        reading = asyncio.ensure_future(result_of(pool, InPool(gate.wait)))
        waiting = InPool(partial(begun.append, 1))
        late = asyncio.ensure_future(refusal_of(pool, waiting))
        await asyncio.sleep(0)  # both are with the pool
        closing = asyncio.create_task(asyncio.to_thread(pool.close))
        while not pool._is_closed:
            await asyncio.sleep(0.001)
        gate.set()
        assert await reading
        assert (await late).code == ResponseCode.SERVICE_NOT_AVAILABLE and not begun
        await closing

    run_with_pool(body)


def test_requests_that_wait_have_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(pool: WorkPool) -> None:
        go_on = threading.Event()
        large = RemotingCommand(code=29, opaque=1, ext_fields={"topic": "t" * 60})
        first, second, third = (FakeTask(large) for _ in range(3))
        pool.run(InPool(go_on.wait), cast(Task, first))
        monkeypatch.setattr(work_pool, "WAITING_BYTES_MAX", 2 * large.size_bytes - 1)
        with pytest.raises(RemoteProtocolError, match="1 requests wait"):
            pool.run(InPool(go_on.wait), cast(Task, second))
        monkeypatch.setattr(work_pool, "WAITING_BYTES_MAX", 2 * large.size_bytes)
        pool.run(InPool(go_on.wait), cast(Task, second))
        with pytest.raises(RemoteProtocolError, match="2 requests wait"):
            pool.run(InPool(go_on.wait), cast(Task, third))
        go_on.set()
        await first.done
        await second.done
        pool.run(InPool(go_on.wait), cast(Task, third))
        await third.done

    run_with_pool(body)
