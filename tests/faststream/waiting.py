"""What tests of coroutines wait by: a list that fills, within a deadline."""

import asyncio
from collections.abc import Callable
from typing import Any

SECONDS_MAX = 15.0


async def until(is_so: Callable[[], Any], what: str = "it") -> None:
    """Wait for a condition. Raises: AssertionError after SECONDS_MAX."""
    try:
        async with asyncio.timeout(SECONDS_MAX):
            while not is_so():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{what} did not come within {SECONDS_MAX} s") from None


async def until_count(found: list[Any], count: int) -> None:
    """Wait for a list to have so many items, and no more."""
    await until(lambda: len(found) >= count, f"item {count} after {found}")
    assert len(found) == count
