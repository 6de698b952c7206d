"""A timer has one outstanding call at most."""

import asyncio

import pytest

from tests.actors.bounded import on_loop
from tests.actors.deployments import wait_until
from wakelog.actors.transport import timer as timer_module
from wakelog.actors.transport.timer import Timer


@on_loop
async def test_a_timer_calls_once_for_each_start_and_not_after_a_cancel() -> None:
    called: list[float] = []
    loop = asyncio.get_running_loop()
    timer = Timer(lambda: called.append(loop.time()))
    assert not timer.is_running
    timer.start(0.0)
    timer.start(0.0)
    await asyncio.sleep(0.01)
    assert len(called) == 1 and not timer.is_running
    timer.start(0.01)
    timer.cancel()
    timer.cancel()
    await asyncio.sleep(0.03)
    assert len(called) == 1
    timer.start(3600)
    timer.restart(0.0)
    assert timer.is_running
    await asyncio.sleep(0.01)
    assert len(called) == 2


@on_loop
async def test_a_time_that_moves_on_leaves_the_call_that_is_due_before() -> None:
    called: list[int] = []
    timer = Timer(lambda: called.append(1))
    timer.start_by(20, 0)
    timer.start_by(3_600_000, 10)
    await asyncio.sleep(0.05)
    assert called == [1]
    timer.start_by(3_600_000, 0)
    timer.start_by(1, 0)
    await asyncio.sleep(0.05)
    assert called == [1, 1] and not timer.is_running


@on_loop
async def test_a_timer_whose_call_failed_calls_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(timer_module, "AGAIN_SECONDS", 0.0)
    called: list[int] = []

    def call() -> None:
        called.append(len(called))
        if len(called) < 3:
            raise KeyError("no place")
        timer.start(3600)

    timer = Timer(call)
    timer.start(0.0)
    await wait_until(lambda: len(called) == 3, "the third call")
    assert timer.is_running
    assert caplog.text.count("timer failed") == 2 and "no place" in caplog.text
    timer.cancel()
