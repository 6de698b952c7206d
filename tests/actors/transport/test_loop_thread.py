"""A loop in a thread of its own."""

import asyncio
import threading

import pytest

from wakelog.actors.transport.loop_thread import LoopThread


async def where(value: int) -> tuple[int, str]:
    await asyncio.sleep(0)
    return value, threading.current_thread().name


async def fail() -> None:
    raise ValueError("no")


def test_work_runs_in_the_thread_and_its_result_comes_back() -> None:
    thread = LoopThread("worker")
    assert thread.run(where(7)) == (7, "worker")
    with pytest.raises(ValueError, match="no"):
        thread.run(fail())
    called = threading.Event()
    thread.call_soon(called.set)
    assert called.wait(30)
    thread.stop()
    thread.close()
    assert thread.loop.is_closed()
