"""The lines on calls with a result: the next call goes out when the last one's reference is ready.

Nothing here waits on a timer but what the store's settings time (the asynchronous flush) and a held
pull's deadline. Arrivals go from Reput to PullHold as a reference: the Broker passes it on without
looking inside.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable
from contextlib import suppress

from wakelog.actors.services.broker_events import BrokerEvents, hold_note
from wakelog.actors.services.pull_hold import Woken
from wakelog.actors.services.reput import Progress
from wakelog.actors.transport.batching import BatchWorker
from wakelog.actors.transport.service_client import ServiceClient, ServiceLost
from wakelog.broker.decision import HoldPull

LOOKS_PER_TURN_MAX = 256
"""Pulls that look again in one go; some milliseconds, then others have their turn."""


class ReferenceHolds:
    """To PullHold: notes as they gather, and a timer for the deadline it answers with."""

    def __init__(
        self, pull_hold: ServiceClient, epoch: int, events: BrokerEvents, *, has_timer: bool = True
    ) -> None:
        """Tell `pull_hold`; what it wakes goes to `events`.

        has_timer: deadlines are this line's business; with notifications they are PullHold's own.
        """
        self._has_timer = has_timer
        self._pull_hold = pull_hold
        self._epoch = epoch
        self._events = events
        self._notes: list[HoldPull] = []
        self._forgotten: list[int] = []
        self._worker = BatchWorker("hold", self._tell)
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_ms: int | None = None

    def hold(self, notes: Iterable[HoldPull]) -> None:
        """Tell of pulls that wait; while PullHold is away, it is told when it is back."""
        if self._pull_hold.is_attached:
            self._notes += notes
            self._worker.ask()

    def forget(self, hold_ids: Iterable[int]) -> None:
        """Tell of pulls that wait no more."""
        if self._pull_hold.is_attached:
            self._forgotten += hold_ids
            self._worker.ask()

    def hold_all(self) -> None:
        """Have every pull that waits look again: those that find nothing are held anew.

        A PullHold that was just attached knows neither the pulls nor what arrived before it was.
        """
        self._notes.clear()
        self._forgotten.clear()
        self._look_again([note.hold_id for note in self._events.held_notes()])

    async def arrived(self, arrivals: Awaitable[object]) -> None:
        """Pass a step's arrivals on, and wake whom they wake."""
        with suppress(ServiceLost):
            self._woken(await self._pull_hold.ask("wake", "arrived", self._epoch, arrivals))

    async def stop(self) -> None:
        """Tell nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        await self._worker.stop()

    def _look_again(self, hold_ids: list[int]) -> None:
        self._events.woken(hold_ids[:LOOKS_PER_TURN_MAX])
        if len(hold_ids) > LOOKS_PER_TURN_MAX:
            asyncio.get_running_loop().call_soon(self._look_again, hold_ids[LOOKS_PER_TURN_MAX:])

    async def _tell(self) -> bool:
        notes, self._notes = self._notes, []
        forgotten, self._forgotten = self._forgotten, []
        with suppress(ServiceLost):
            # In this order: a pull that is held and given up at once must not stay.
            if notes:
                listed = [hold_note(note) for note in notes]
                self._woken(await self._pull_hold.ask("hold", "hold", self._epoch, listed))
            if forgotten:
                await self._pull_hold.ask("hold", "forget", self._epoch, forgotten)
        return bool(self._notes or self._forgotten)

    def _woken(self, woken: Woken) -> None:
        hold_ids, self._deadline_ms = woken
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._deadline_ms is not None and self._has_timer:
            seconds = max(0, self._deadline_ms - time.time_ns() // 1_000_000) / 1000
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, lambda: loop.create_task(self._expire()))
        if hold_ids:
            self._events.woken(hold_ids)

    async def _expire(self) -> None:
        with suppress(ServiceLost):
            self._woken(await self._pull_hold.ask("wake", "expire", self._epoch))


class ReferenceDispatch:
    """To Reput: one step after the other while there is something to dispatch."""

    def __init__(
        self, reput: ServiceClient, holds: ReferenceHolds, epoch: int, events: BrokerEvents
    ) -> None:
        """Have `reput` dispatch; arrivals go through `holds`, progress to `events`."""
        self._reput = reput
        self._holds = holds
        self._epoch = epoch
        self._events = events
        self._readable = 0
        self._dispatched = 0
        self._worker = BatchWorker("dispatch", self._step)
        self._wakes: set[asyncio.Task[None]] = set()

    def readable(self, physical_offset: int) -> None:
        """Have the log dispatched up to here."""
        self._readable = physical_offset
        self._worker.ask()

    def hurry(self) -> None:
        """Do nothing: a step is asked for as soon as there is something to dispatch."""

    def look(self) -> None:
        """Do nothing: progress comes with the references."""

    def attached(self, position: int) -> None:
        """Go on where a Reput that was attached begins."""
        self._dispatched = position
        self._worker.ask()

    async def stop(self) -> None:
        """Ask for no more steps."""
        await self._worker.stop()
        for wake in list(self._wakes):
            wake.cancel()

    async def _step(self) -> bool:
        if not self._reput.is_attached or self._dispatched >= self._readable:
            return False
        step, arrivals = self._reput.calls.call_two("dispatch", "step", self._epoch, self._readable)
        try:
            progress: Progress = await self._reput.wait(step)
        except ServiceLost:
            return False
        self._dispatched, arrivals_count, more = progress
        self._events.dispatched(self._dispatched)
        if arrivals_count:
            wake = asyncio.get_running_loop().create_task(self._holds.arrived(arrivals))
            self._wakes.add(wake)
            wake.add_done_callback(self._wakes.discard)
        return more or self._dispatched < self._readable
