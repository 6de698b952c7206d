"""Runs a test's coroutine on a loop of its own, for so long at most."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import ParamSpec

P = ParamSpec("P")

SECONDS_MAX = 60.0
"""Ahead of pytest's own limit, which does not say where on the loop a test hangs."""


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run `main` to its end. Raises: TimeoutError."""

    async def bounded() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            await main()

    asyncio.run(bounded())


def on_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Make a test of a coroutine function."""

    @wraps(test)
    def run_test(*arguments: P.args, **named: P.kwargs) -> None:
        run(partial(test, *arguments, **named))

    return run_test
