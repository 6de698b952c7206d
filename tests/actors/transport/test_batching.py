"""One run at a time, one more for whoever asked meanwhile, and no run lost to an error."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.actors.bounded import on_loop
from tests.actors.deployments import wait_until
from wakelog.actors.transport import batching
from wakelog.actors.transport.batching import BatchWorker

runs: list[None] = []


def counted(work: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[bool]]:
    """Return the work, which notes each of its runs."""
    runs.clear()

    async def run_counted() -> bool:
        runs.append(None)
        return await work()

    return run_counted


@on_loop
async def test_what_is_asked_while_it_runs_is_one_more_run() -> None:
    gate = asyncio.Event()
    under_way = 0

    async def work() -> bool:
        nonlocal under_way
        under_way += 1
        assert under_way == 1
        await gate.wait()
        under_way -= 1
        return False

    worker = BatchWorker("test", counted(work))
    worker.request()
    await asyncio.sleep(0)
    assert worker.is_running
    for _ in range(10):
        worker.request()
    gate.set()
    await worker.wait_idle()
    assert len(runs) == 2 and not worker.is_running


@on_loop
async def test_work_that_says_there_is_more_runs_again() -> None:
    left = 5

    async def work() -> bool:
        nonlocal left
        left -= 1
        return left > 0

    worker = BatchWorker("test", counted(work))
    worker.request()
    await worker.wait_idle()
    assert left == 0 and len(runs) == 5


@on_loop
async def test_an_error_ends_the_run_and_not_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    fails = True

    async def work() -> bool:
        if fails:
            raise OSError("no disk")
        return False

    worker = BatchWorker("test", counted(work))
    worker.request()
    await worker.wait_idle()
    fails = False
    worker.request()
    await worker.wait_idle()
    assert len(runs) == 2
    assert "work failed" in caplog.text


@on_loop
async def test_what_is_requested_during_a_run_that_fails_is_not_lost() -> None:
    gate = asyncio.Event()

    async def work() -> bool:
        if not gate.is_set():
            await gate.wait()
            raise OSError("no disk")
        return False

    worker = BatchWorker("test", counted(work))
    worker.request()
    await asyncio.sleep(0)
    worker.request()
    gate.set()
    await worker.wait_idle()
    assert len(runs) == 2


@on_loop
async def test_a_stop_gives_up_the_run_under_way() -> None:
    async def work() -> bool:
        await asyncio.Event().wait()
        return False

    worker = BatchWorker("test", counted(work))
    worker.request()
    await asyncio.sleep(0)
    await worker.stop()
    assert not worker.is_running
    await worker.stop()


@on_loop
async def test_a_stop_gives_up_a_run_that_has_not_begun() -> None:
    async def work() -> bool:
        return False

    worker = BatchWorker("test", counted(work))
    worker.request()
    await worker.stop()
    assert len(runs) == 0 and not worker.is_running
    worker.request()
    await worker.wait_idle()
    assert len(runs) == 1


@on_loop
async def test_work_that_failed_runs_again_unasked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "AGAIN_SECONDS", 0.0)

    async def work() -> bool:
        if len(runs) < 3:
            raise OSError("no disk")
        return False

    BatchWorker("test", counted(work)).request()
    await wait_until(lambda: len(runs) == 3, "the third run")
