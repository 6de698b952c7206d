"""Background work: none of it ends by an unexpected error in silence.

asyncio tells of a task that failed when its last reference goes. Whoever keeps a task has such a
reference for as long as it lives: the work would stop, and nobody would hear of it. So every task
and thread of a process that serves begins by one of these:

    keep           endless work; after an error it begins again
    run_once       work that nobody awaits; its owner hears of an error, and continues or fails
    awaited        work whose result or error somebody awaits
    gathered       what is asked of several, so many at once; who began it awaits all
    start_thread   a thread; its owner hears of an error

`on_failed` is called with the error. `log_failure` makes one that writes a line.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from types import CoroutineType
from typing import Any, Final, TypeAlias, TypeVar

from structlog.stdlib import BoundLogger

OnFailed: TypeAlias = Callable[[Exception], object]

Item = TypeVar("Item")
Result = TypeVar("Result")

AGAIN_SECONDS: Final = 1.0
"""The pause before failed work begins again. An error that comes each time must not fill a disk."""


def keep(work: Callable[[], Awaitable[None]], on_failed: OnFailed) -> asyncio.Task[None]:
    """Run work until it returns; begin it again, after a pause, each time it raises."""
    return asyncio.get_running_loop().create_task(_keep_on(work, on_failed))


def run_once(work: Coroutine[Any, Any, None], on_failed: OnFailed) -> asyncio.Task[None]:
    """Run work that nobody awaits."""

    def on_end(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            on_failed(error)

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(on_end)
    return task


def awaited(work: Awaitable[Result]) -> asyncio.Future[Result]:
    """Run work whose result or error somebody awaits: who began it, or all who want the result."""
    if isinstance(work, CoroutineType):  # a turn of the broker has several, and no other kind
        return asyncio.get_running_loop().create_task(work)
    return asyncio.ensure_future(work)


async def gathered(
    ask: Callable[[Item], Awaitable[Result]], items: Iterable[Item], *, at_once_max: int
) -> list[Result]:
    """Return what is answered of each item, in their order. Raises: what an answer raises."""
    slots = asyncio.Semaphore(at_once_max)

    async def one(item: Item) -> Result:
        async with slots:
            return await ask(item)

    return await asyncio.gather(*map(one, items))


def start_thread(work: Callable[[], None], on_failed: OnFailed, *, name: str) -> threading.Thread:
    """Run work in a thread that the process does not wait for when it ends."""

    def run() -> None:
        try:
            work()
        except Exception as error:
            on_failed(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def log_failure(log: BoundLogger, name: str) -> OnFailed:
    """Return a function that logs that the work `name` failed."""
    return lambda error: log.error(
        "background work failed", work=name, cause=repr(error), exc_info=error
    )


async def _keep_on(work: Callable[[], Awaitable[None]], on_failed: OnFailed) -> None:
    while True:
        try:
            await work()
        except Exception as error:
            on_failed(error)
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return
