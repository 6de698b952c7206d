"""A task that goes on: after an error that nobody expects it is logged, and the work begins again.

asyncio tells of a task that has failed when its last reference goes. One that is kept has such a
reference for as long as its owner lives: its work would stop, and nobody would hear of it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from structlog.stdlib import BoundLogger

AGAIN_SECONDS: Final = 1.0
"""The pause before the work begins again. An error that comes each time must not fill a disk."""


async def keep_on(
    work: Callable[[], Awaitable[None]],
    log: BoundLogger,
    name: str,
    *,
    again_seconds: float = AGAIN_SECONDS,
) -> None:
    """Return when the work does; begin it again each time it raises. name: of it, in the log."""
    while True:
        try:
            await work()
        except Exception as error:
            log.error("task begins again", task=name, cause=repr(error), exc_info=True)
            await asyncio.sleep(again_seconds)
        else:
            return
