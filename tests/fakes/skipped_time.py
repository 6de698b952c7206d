"""A loop on which nobody waits: where all tasks wait, its clock moves to the next timer."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import TypeVar

Result = TypeVar("Result")


class _Skipping(selectors.DefaultSelector):
    """Finds what is ready now; what it would have waited is skipped."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        self.seconds += max(0.0, timeout)
        return super().select(0)


class SkippedTime(asyncio.SelectorEventLoop):
    """See the module. Its clock begins at 0; threads get no time of it."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.seconds


def run_skipping(main: Callable[[], Awaitable[Result]]) -> Result:
    """Run `main` to its end on a loop of its own."""

    async def whole() -> Result:
        return await main()

    with asyncio.Runner(loop_factory=SkippedTime) as runner:
        return runner.run(whole())
