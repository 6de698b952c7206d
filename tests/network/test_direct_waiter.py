"""A task that waits is resumed where its response was read, and as by a future otherwise."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from wakelog.network.direct_waiter import DirectWaiter
from wakelog.protocol.command import RemotingCommand

TASKS = [asyncio.Task, asyncio.tasks._PyTask]  # type: ignore[attr-defined]
"""That of C, and that of Python, which some programs put in its place."""

NAME = ContextVar("NAME", default="")


@pytest.fixture(params=TASKS, ids=["C", "Python"], name="run")
def run_with_tasks(request: pytest.FixtureRequest) -> Callable[..., None]:
    def run(scenario: Callable[[DirectWaiter, asyncio.Task[Any]], Any]) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            waiter = DirectWaiter(loop)

            async def wait() -> RemotingCommand:
                NAME.set("the caller's")
                response = await waiter
                assert NAME.get() == "the caller's"
                return response

            task = request.param(wait(), loop=loop)
            await asyncio.sleep(0)
            await scenario(waiter, task)

        asyncio.run(main())

    return run


def in_a_callback(function: Callable[[], object]) -> "asyncio.Future[object]":
    """Call a function as a loop does; a task may not go on inside of another."""
    loop = asyncio.get_running_loop()
    called = loop.create_future()
    loop.call_soon(lambda: called.set_result(function()))
    return called


def test_the_read_of_a_response_goes_on_with_the_task(run: Callable[..., None]) -> None:
    response = RemotingCommand(0)

    async def scenario(waiter: DirectWaiter, task: asyncio.Task[Any]) -> None:
        def read() -> bool:
            waiter.set_result(response)
            was_done = task.done()
            waiter.resume()
            waiter.resume()
            return not was_done and task.done()

        assert await in_a_callback(read), "and not before `resume`"
        assert task.result() is response
        assert not waiter.cancel()

    run(scenario)


def test_an_error_comes_in_the_next_turn_since_a_task_may_have_caused_it(
    run: Callable[..., None],
) -> None:
    async def scenario(waiter: DirectWaiter, task: asyncio.Task[Any]) -> None:
        waiter.set_exception(ConnectionError("lost"))
        assert waiter.done() and not task.done()
        with pytest.raises(ConnectionError, match="lost"):
            await task

    run(scenario)


@pytest.mark.parametrize("message", [None, "enough"])
def test_a_task_that_waits_can_be_cancelled(run: Callable[..., None], message: str | None) -> None:
    async def scenario(waiter: DirectWaiter, task: asyncio.Task[Any]) -> None:
        assert task.cancel(message)
        assert waiter.done() and not task.done()
        with pytest.raises(asyncio.CancelledError, match=message or "^$"):
            await task

    async def read_before(waiter: DirectWaiter, task: asyncio.Task[Any]) -> None:
        task.cancel(message)
        await in_a_callback(waiter.resume)  # a response that comes too late
        assert task.cancelled()

    run(scenario)
    run(read_before)


def test_what_is_there_before_a_task_waits_is_returned_at_once() -> None:
    async def main() -> None:
        waiter = DirectWaiter(asyncio.get_running_loop())
        waiter.set_exception(ConnectionError("lost"))
        with pytest.raises(ConnectionError, match="lost"):
            await waiter
        await asyncio.sleep(0)

    asyncio.run(main())
