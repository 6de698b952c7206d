"""Wait for the death of another process, as the kernel reports it.

Ray answers a call to a killed actor only some tenths of a second after the death.
"""

import asyncio
import os
from collections.abc import Callable

POLL_SECONDS = 0.5
"""How often a process is checked where the kernel has no process descriptors (macOS)."""


async def wait_death(process_id: int, died: asyncio.Future[None]) -> None:
    """Return when the process has died, or when `died` is set."""
    if process_id == os.getpid():
        await died
        return
    open_descriptor: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    if open_descriptor is None:
        await _poll_death(process_id, died)
        return
    try:
        descriptor = open_descriptor(process_id)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, set_died, died)
    try:
        await died
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def set_died(died: asyncio.Future[None]) -> None:
    """Set the future unless it is set."""
    if not died.done():
        died.set_result(None)


async def _poll_death(process_id: int, died: asyncio.Future[None]) -> None:
    while not died.done():
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return
        await asyncio.wait([died], timeout=POLL_SECONDS)
