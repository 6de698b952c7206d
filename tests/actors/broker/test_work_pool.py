"""Work runs in a thread, is finished on the loop, and is refused when too much waits."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from tests.actors.bounded import run
from wakelog.actors.broker import work_pool
from wakelog.actors.broker.work_pool import LIMITS, RunSteps, WorkPool
from wakelog.broker.decision import DoSteps, Outcome, RunInPool, WorkKind
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.steps import Steps, finish

REQUEST = RemotingCommand(code=11, opaque=1)


async def outcome_of(pool: WorkPool, deferred: RunInPool, run_steps: RunSteps | None = None) -> Any:
    done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    pool.run(REQUEST, deferred, done.set_result, run_steps)
    return await done


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

        def finish(result: int, _now_ms: int) -> Outcome:
            threads.append(threading.current_thread())
            return answer(REQUEST, 0, str(result))

        outcome = await outcome_of(pool, RunInPool(work, finish))
        assert outcome.remark == "42"
        assert threads[0] is not threads[1] is threading.main_thread()
        assert pool.statistics() == {"waiting_count": 0, "run_count": 1, "refused_count": 0}

    run_with_pool(body)


@pytest.mark.parametrize("where", ["work", "finish"])
def test_what_raises_is_answered(where: str) -> None:
    async def body(pool: WorkPool) -> None:

        def maybe_fail(step: str) -> None:
            if step == where:
                raise OSError(f"{step} failed")

        deferred = RunInPool(lambda: maybe_fail("work"), lambda *_: maybe_fail("finish"))
        outcome = await outcome_of(pool, deferred)
        assert outcome.code == ResponseCode.SYSTEM_ERROR and f"{where} failed" in outcome.remark

    run_with_pool(body)


def test_too_much_waiting_work_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, WorkKind.READ, waiting_max=2)

    async def body(pool: WorkPool) -> None:
        gate = threading.Event()
        blocked = RunInPool(gate.wait, lambda *_: None)
        outcomes = [asyncio.ensure_future(outcome_of(pool, blocked)) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await outcome_of(pool, blocked)
        assert refused.code == ResponseCode.SYSTEM_BUSY and "2 requests wait" in refused.remark
        gate.set()
        assert await asyncio.gather(*outcomes) == [None, None]

    run_with_pool(body)


def test_searches_hold_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, WorkKind.SEARCH, waiting_max=6)

    async def body(pool: WorkPool) -> None:
        gate = threading.Event()
        search = RunInPool(gate.wait, lambda *_: None, WorkKind.SEARCH)
        searches = [asyncio.ensure_future(outcome_of(pool, search)) for _ in range(6)]
        await asyncio.sleep(0)
        refused = await outcome_of(pool, search)
        assert refused.code == ResponseCode.SYSTEM_BUSY and "6 requests wait" in refused.remark
        assert await outcome_of(pool, RunInPool(int, lambda *_: None)) is None
        assert pool.statistics() == {"waiting_count": 6, "run_count": 7, "refused_count": 1}
        gate.set()
        assert await asyncio.gather(*searches) == [None] * 6

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

        encoding = RunInPool(work, lambda *_: None, WorkKind.ENCODE)
        encodings = [asyncio.ensure_future(outcome_of(pool, encoding)) for _ in range(3)]
        await asyncio.sleep(0)
        refused = await outcome_of(pool, encoding)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert "3 requests wait for a table" in refused.remark
        for _ in range(LIMITS[WorkKind.READ].threads_count + 1):
            assert await outcome_of(pool, RunInPool(int, lambda *_: None)) is None
        gate.set()
        assert await asyncio.gather(*encodings) == [None] * 3
        assert most == [1]
        assert pool.statistics()["waiting_count"] == 0

    run_with_pool(body)


def test_a_search_whose_client_has_given_up_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, WorkKind.SEARCH, wait_seconds_max=-1.0)

    async def body(pool: WorkPool) -> None:
        begun: list[int] = []
        search = RunInPool(partial(begun.append, 1), lambda *_: None, WorkKind.SEARCH)
        late = await outcome_of(pool, search)
        assert late.code == ResponseCode.SYSTEM_BUSY and not begun
        assert late.remark.startswith("[TIMEOUT_CLEAN_QUEUE]system busy, waited for the index for")

    run_with_pool(body)


def test_results_are_taken_in_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_pool, "YIELD_SECONDS", 0.0)
    limit(monkeypatch, WorkKind.READ, threads_count=1)

    async def body(pool: WorkPool) -> None:
        loop = asyncio.get_running_loop()
        order: list[str] = []
        done = loop.create_future()

        def finish(name: str) -> Outcome:
            order.append(name)
            loop.call_soon(order.append, f"behind {name}")
            if name == "second":
                loop.call_soon(done.set_result, None)
            raise OSError(name)

        for name in ("first", "second"):
            pool.run(REQUEST, RunInPool(int, lambda *_, name=name: finish(name)), lambda _: None)
        await done
        assert order == ["first", "behind first", "second", "behind second"]

    run_with_pool(body)


def test_a_result_that_fails_to_finish_holds_up_no_other() -> None:
    async def body(pool: WorkPool) -> None:
        errors: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, cause: errors.append(cause))

        def refuse(_: Outcome) -> None:
            raise AssertionError("nobody")

        pool.run(REQUEST, RunInPool(int, lambda *_: None), refuse)
        assert await outcome_of(pool, RunInPool(int, lambda *_: None)) is None
        assert len(errors) == 1

    run_with_pool(body)


def test_work_without_a_result_is_dropped_while_threads_are_busy() -> None:
    async def body(pool: WorkPool) -> None:
        done = threading.Event()
        gate = threading.Event()
        pool.try_to(done.set)
        assert await asyncio.to_thread(done.wait, 5.0)
        outcomes = [
            asyncio.ensure_future(outcome_of(pool, RunInPool(gate.wait, lambda *_: None)))
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


def test_work_that_judges_reads_in_a_thread_and_computes_on_the_loop() -> None:
    async def body(pool: WorkPool) -> None:
        threads: list[threading.Thread] = []

        def compute(number: int) -> Steps[int]:
            threads.append(threading.current_thread())
            yield
            return number + 1

        def work(do_steps: DoSteps) -> int:
            threads.append(threading.current_thread())
            return int(do_steps(compute(do_steps(compute(40)))))

        def run_steps(steps: Steps[Any], _: RemotingCommand, done: Callable[[Any], None]) -> None:
            done(finish(steps))

        judging = RunInPool(work, lambda result, _: answer(REQUEST, 0, str(result)), WorkKind.JUDGE)
        outcome = await outcome_of(pool, judging, run_steps)
        assert outcome.remark == "42"
        main = threading.main_thread()
        assert [thread is main for thread in threads] == [False, True, True]
        assert pool.statistics()["waiting_count"] == 0

    run_with_pool(body)


def test_steps_that_are_refused_are_answered_so() -> None:
    async def body(pool: WorkPool) -> None:
        judging = RunInPool(lambda do_steps: do_steps(iter(())), lambda *_: None, WorkKind.JUDGE)
        busy = answer(REQUEST, ResponseCode.SYSTEM_BUSY, "too many")
        outcome = await outcome_of(pool, judging, lambda _steps, _request, done: done(busy))
        assert (outcome.code, outcome.remark) == (ResponseCode.SYSTEM_BUSY, "too many")

    run_with_pool(body)


def test_work_that_waits_for_steps_does_not_hold_up_the_end() -> None:
    async def body(pool: WorkPool) -> None:
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        judging = RunInPool(lambda do_steps: do_steps(iter(())), lambda *_: None, WorkKind.JUDGE)

        def never(_steps: Any, _request: Any, _done: Any) -> None:
            if not asked.done():
                asked.set_result(None)

        outcomes = [
            asyncio.ensure_future(outcome_of(pool, judging, never))
            for _ in range(LIMITS[WorkKind.JUDGE].threads_count + 3)
        ]
        await asked
        pool.close()
        codes = {outcome.code for outcome in await asyncio.gather(*outcomes)}
        assert codes == {ResponseCode.SERVICE_NOT_AVAILABLE}

    run_with_pool(body)


def test_work_that_has_not_begun_at_the_end_never_does(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, WorkKind.READ, threads_count=1)

    async def body(pool: WorkPool) -> None:
        gate, begun = threading.Event(), list[int]()
        reading = asyncio.ensure_future(outcome_of(pool, RunInPool(gate.wait, lambda *_: None)))
        waiting = RunInPool(partial(begun.append, 1), lambda *_: None)
        late = asyncio.ensure_future(outcome_of(pool, waiting))
        asked = asyncio.Event()
        judging = RunInPool(lambda do_steps: do_steps(iter(())), lambda *_: None, WorkKind.JUDGE)
        judged = asyncio.ensure_future(outcome_of(pool, judging, lambda *_: asked.set()))
        await asked.wait()
        closing = asyncio.create_task(asyncio.to_thread(pool.close))
        assert (await judged).code == ResponseCode.SERVICE_NOT_AVAILABLE  # it closes
        gate.set()
        assert await reading is None
        assert (await late).code == ResponseCode.SERVICE_NOT_AVAILABLE and not begun
        await closing

    run_with_pool(body)


def test_requests_that_wait_have_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_pool, "WAITING_BYTES_MAX", 100)

    async def body(pool: WorkPool) -> None:
        go_on = threading.Event()
        answers: list[Any] = []
        large = RemotingCommand(code=29, opaque=1, ext_fields={"topic": "t" * 60})
        work = RunInPool(go_on.wait, lambda _result, _now_ms: answer(large, 0))
        for _ in range(2):
            pool.run(large, work, answers.append)
        assert [one.code for one in answers] == [ResponseCode.SYSTEM_BUSY]
        go_on.set()
        while len(answers) < 2:
            await asyncio.sleep(0)
        pool.run(large, work, answers.append)
        while len(answers) < 3:
            await asyncio.sleep(0)
        assert [one.code for one in answers] == [ResponseCode.SYSTEM_BUSY, 0, 0]

    run_with_pool(body)
