"""FullCollections: when Python looks for cycles among all objects of a process with clients.

A full collection visits every object, and nothing else runs meanwhile: 80 ms with a few 100,000
entries in tables. By default a table that grows by a quarter starts one, in the middle of whatever
request made it grow. Here they come by time. Young objects are collected as before; and what is in
no cycle needs no collection.

Source: none upstream; a JVM collects beside its threads.
"""

import gc
from typing import Final

from wakelog.actors.transport.timer import Timer

SECONDS_BETWEEN: Final = 600.0
"""Little cyclic garbage grows old: a broker makes some MB of it in a day."""

NEVER: Final = 1_000_000_000
"""So many collections of the second generation come before a full one that is not ours."""


class FullCollections:
    """The full collections of this process, from `begin` to `end`."""

    def __init__(self) -> None:
        self._timer = Timer(self._collect)
        self._before = gc.get_threshold()

    def begin(self) -> None:
        """Have them by time from now on; a loop must be running."""
        young, middle, _ = self._before
        gc.set_threshold(young, middle, NEVER)
        self._collect()

    def end(self) -> None:
        """Have them as before."""
        self._timer.cancel()
        gc.set_threshold(*self._before)

    def _collect(self) -> None:
        gc.collect()
        self._timer.start(SECONDS_BETWEEN)
