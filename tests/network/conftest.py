"""Both kinds of loop that a server may run on."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine function on one kind of loop."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_on_loop(main: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(10):
                await main()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(bounded())

    return run_on_loop
