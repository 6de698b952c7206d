"""Links: what a Broker asks of its neighbours and what they tell it, whatever lies between them.

Three implementations, one contract: `local` (the cores in this process), `reference_links` (plain
actor calls, results by object reference) and `bell_links` (words and bells on one node).

    Broker -> Links     appended, readable    a watermark moved: flush and commit, or dispatch
                        hold, forget          held pulls, for PullHold
    Links -> Broker     flushed, committed, dispatched    a neighbour's watermark moved
                        wake                              run these held pulls again
                        deliver                           delayed messages whose time has come

Every method of Links returns at once. What a neighbour answers comes on the Broker's own thread.

Invariants:
    - watermarks only grow; a lower one than before is ignored by whoever hears it.
    - a note may be lost and a call repeated; no answer depends on either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from wakelog.broker.decision import HoldPull
from wakelog.broker.schedule import DueMessage
from wakelog.storage.config import StoreConfig

Result = TypeVar("Result")


class Opening(NamedTuple):
    """What neighbours need to know of the store that the Broker has just opened."""

    store_id: str
    epoch: int
    store_config: StoreConfig
    min_physical_offset: int
    log_end: int
    dispatch_from: int
    flushed_offset: int


class Owner(Protocol):
    """The Broker, as its neighbours see it."""

    def flushed(self, physical_offset: int) -> None:
        """Take note that every byte below survives the machine."""
        ...

    def flush_failed(self, cause: str) -> None:
        """Take note that nothing will be flushed any more."""
        ...

    def committed(self, physical_offset: int) -> None:
        """Take note that every byte below is in the segments (transient pool only)."""
        ...

    def dispatched(self, physical_offset: int) -> None:
        """Take note that every record below is in the queues."""
        ...

    def wake(self, hold_ids: Sequence[int]) -> None:
        """Run held pulls again."""
        ...

    def held(self) -> list[HoldPull]:
        """Return a note of every held pull, for a PullHold that starts anew."""
        ...

    async def deliver(self, due: Sequence[DueMessage]) -> dict[int, int]:
        """Put due messages into their topics; return the next queue offset by delay level."""
        ...


class Links(Protocol):
    """The neighbours of one Broker."""

    async def start(self, owner: Owner, opening: Opening) -> None:
        """Begin to work for `owner`, whose store is open."""
        ...

    def appended(self, physical_offset: int) -> None:
        """Say how far the log reaches."""
        ...

    def readable(self, physical_offset: int) -> None:
        """Say how far consumers may see, which is how far Reput may go."""
        ...

    def hold(self, notes: Iterable[HoldPull]) -> None:
        """Hand over held pulls."""
        ...

    def forget(self, hold_ids: Sequence[int]) -> None:
        """Take back held pulls."""
        ...

    async def stop(self) -> None:
        """Flush what neighbours hold and end them; `dispatched` has caught up before, if it can."""
        ...

    def statistics(self) -> dict[str, Any]:
        """Return what the neighbours say of themselves, as builtins, by service."""
        ...


class Pump(Generic[Result]):
    """Natural batching: one step of work under way, the next as soon as it ends and wants more.

    What is asked for while a step is under way is done by the next one, all at once. There is no
    timer and no queue: the only state is how far to go.
    """

    def __init__(
        self,
        step: Callable[[int], Awaitable[Result]],
        done: Callable[[Result], int],
        *,
        failed: Callable[[Exception], None],
        at: int,
    ) -> None:
        """Stand at `at`.

        step: works towards a target. done: takes its result and returns where the pump stands now,
            short of the target if there is more to do. failed: hears what a step raised; the
            pump then stands still until `want` is called again.
        """
        self._step = step
        self._done = done
        self._failed = failed
        self._at = at
        self._target = at
        self._task: asyncio.Task[None] | None = None

    @property
    def at(self) -> int:
        """How far the work is done."""
        return self._at

    @property
    def behind(self) -> int:
        """How much was asked for and is not done."""
        return self._target - self._at

    def want(self, target: int) -> None:
        """Ask for the work up to `target`."""
        if target > self._target:
            self._target = target
        if self._task is None and self._at < self._target:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._at < self._target:
                self._at = max(self._at, self._done(await self._step(self._target)))
        except Exception as error:
            self._failed(error)
        finally:
            self._task = None

    async def wait_idle(self) -> None:
        """Return once no step is under way."""
        task = self._task
        if task is not None:
            await asyncio.shield(task)
