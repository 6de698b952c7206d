"""Runs a test's coroutine on a loop of its own, for so long at most."""

import asyncio
from collections.abc import Awaitable, Callable

SECONDS_MAX = 60.0
"""Ahead of pytest's own limit, which does not say where on the loop a test hangs."""


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run `main` to its end. Raises: TimeoutError."""

    async def bounded() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            await main()

    asyncio.run(bounded())
