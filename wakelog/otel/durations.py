"""Durations that wait to be recorded until the loop's next turn.

To record one takes the SDK 10 µs. At the next turn the user's next request is on its way: so the
broker and the SDK work at the same time.

Invariants: a reader of metrics gets all that was added before it collects. At most
`DURATIONS_WAITING_MAX` wait.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Final

Record = Callable[[], None]

DURATIONS_WAITING_MAX: Final = 256
"""One more is recorded at once."""


class Durations:
    """See the module. Any thread, each with its own loop or with none."""

    def __init__(self) -> None:
        """Have none."""
        self._waiting: deque[Record] = deque()
        self._turn_of: asyncio.AbstractEventLoop | None = None

    def add(self, record: Record) -> None:
        """Record at the next turn; at once where no loop runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            record()
            return
        if len(self._waiting) >= DURATIONS_WAITING_MAX:
            record()
            return
        self._waiting.append(record)
        if self._turn_of is not loop:
            self._turn_of = loop
            # In no context of the caller: a request carries messages of several.
            loop.call_soon(self.record_all, context=contextvars.Context())

    def record_all(self) -> None:
        """Record what waits."""
        self._turn_of = None
        while self._waiting:
            try:
                record = self._waiting.popleft()
            except IndexError:  # another thread has it
                return
            record()


DURATIONS: Final = Durations()
"""Of this process: an instrument of an earlier instrumentor may be the one that is read."""
