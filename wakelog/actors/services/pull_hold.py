"""PullHold: knows which pulls wait for which queue, outside of the Broker's loop.

The Broker sends holds. Reput sends arrivals, by reference through the Broker. Wakes go to the
Broker. The core decides; the service has the timer of the next deadline.

Source: org.apache.rocketmq.broker.longpolling.PullRequestHoldService (4.9.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Any

from wakelog.actors.services.client import BrokerContext, ServiceClient, ServiceLost
from wakelog.actors.services.service import Service
from wakelog.actors.services.session import BROKER, AttachRequest, ServiceSession
from wakelog.actors.transport.batching import BatchWorker
from wakelog.actors.transport.calls import ServiceCalls
from wakelog.actors.transport.clocks import wall_ms
from wakelog.actors.transport.notifications import Note
from wakelog.actors.transport.timer import Timer
from wakelog.broker.decision import HoldPull
from wakelog.broker.pull_hold import PullHold
from wakelog.dispatchers.reput import Arrival

HOLD_CODES_MAX = 64
"""A pull of more tags is held as one of all tags: the Broker filters again, and a note stays under
1 KiB."""

CHECKS_PER_TURN_MAX = 256
"""Pulls that run again at once; that takes some milliseconds, then the loop serves others."""

Woken = tuple[list[int], int | None]
"""The holds to wake, and the next deadline in milliseconds since 1970."""


class HoldNote(IntEnum):
    """The first part of a note to PullHold: the kind of the rest."""

    HOLD = 0
    FORGET = 1
    ARRIVAL = 2


class PullHoldService(Service):
    """The service of `broker.pull_hold.PullHold`."""

    def __init__(self, plan: dict[str, Any], name: str) -> None:
        """Hold nothing."""
        super().__init__(plan, name)
        self._core = PullHold()
        self._timer = Timer(lambda: self._wake(self._core.expire(wall_ms())))

    def begin(self, session: ServiceSession, request: AttachRequest) -> dict[str, Any]:
        """Begin without holds."""
        self._core.clear()
        session.on_release(self._core.clear)
        session.on_release(self._timer.cancel)
        if session.has_notifications:
            self._broker = session.notifier_to(BROKER)
            session.listen(self._on_notified)
        return {}

    def hold(self, notes: Sequence[Sequence[Any]]) -> Woken:
        """Add holds; return those to wake at once, and the next deadline."""
        woken = self._core.hold(map(read_hold_note, notes))
        return woken, self._core.next_deadline_ms()

    def arrived(self, arrivals: Sequence[Sequence[Any]]) -> Woken:
        """Note that queues have grown; return the holds to wake, and the next deadline."""
        woken = self._core.arrived(map(Arrival._make, arrivals))
        return woken, self._core.next_deadline_ms()

    def forget(self, hold_ids: Sequence[int]) -> None:
        """Remove holds."""
        self._core.forget(hold_ids)

    def expire(self) -> Woken:
        """Return the holds whose deadline has come, and the next deadline."""
        return self._core.expire(wall_ms()), self._core.next_deadline_ms()

    def counters(self) -> dict[str, Any]:
        """Return the core's counters."""
        return self._core.statistics()

    def _on_notified(self, notes: Note) -> None:
        woken: list[int] = []
        for kind, *parts in notes:
            if kind == HoldNote.ARRIVAL:
                woken += self._core.arrived((Arrival._make(parts),))
            elif kind == HoldNote.HOLD:
                woken += self._core.hold((read_hold_note(parts),))
            else:
                self._core.forget(parts)
        self._wake(woken)

    def _wake(self, hold_ids: Sequence[int]) -> None:
        if hold_ids:
            self._broker.send((hold_id,) for hold_id in hold_ids)
        self._timer.cancel()
        deadline_ms = self._core.next_deadline_ms()
        if deadline_ms is not None:
            self._timer.start(max(0, deadline_ms - wall_ms()) / 1000)


class PullHoldClient(ServiceClient):
    """Sends holds, and reports which pulls are woken."""

    def __init__(self, name: str, calls: ServiceCalls, broker: BrokerContext) -> None:
        """Hold nothing."""
        super().__init__(name, calls, broker)
        self._events = broker.events
        self._notifier = broker.notifier_to(name)
        self._notes: list[HoldPull] = []
        self._forgotten: list[int] = []
        self._worker = BatchWorker("hold", self._send_notes)
        # With notifications the service has the timer.
        self._timer = Timer(lambda: asyncio.get_running_loop().create_task(self._report("expire")))

    def hold(self, notes: Iterable[HoldPull]) -> None:
        """Send notes of held pulls; those that PullHold misses run again when it is attached."""
        if self._notifier is not None:
            self._notifier.send((int(HoldNote.HOLD), *hold_note(note)) for note in notes)
        elif self.is_attached:
            self._notes += notes
            self._worker.request()

    def forget(self, hold_ids: Iterable[int]) -> None:
        """Have PullHold drop the notes of pulls whose connection is closed."""
        if self._notifier is not None:
            self._notifier.send((int(HoldNote.FORGET), hold_id) for hold_id in hold_ids)
        elif self.is_attached:
            self._forgotten += hold_ids
            self._worker.request()

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Run every pull that waits again; the Broker holds those that find nothing once more.

        A new PullHold knows neither the pulls nor what arrived before it was attached.
        """
        self._notes.clear()
        self._forgotten.clear()
        self._run_again([note.hold_id for note in self._events.held_notes()])

    async def wake(self, arrivals: Awaitable[object]) -> None:
        """Pass the arrivals of a step on as a reference, and wake the pulls that wait for them."""
        await self._report("arrived", arrivals)

    async def stop_work(self) -> None:
        """Send nothing more."""
        self._timer.cancel()
        await self._worker.stop()

    def _run_again(self, hold_ids: list[int]) -> None:
        self._events.woken(hold_ids[:CHECKS_PER_TURN_MAX])
        if len(hold_ids) > CHECKS_PER_TURN_MAX:
            asyncio.get_running_loop().call_soon(self._run_again, hold_ids[CHECKS_PER_TURN_MAX:])

    async def _send_notes(self) -> bool:
        notes, self._notes = self._notes, []
        forgotten, self._forgotten = self._forgotten, []
        # In this order: a pull that is held and given up at once must not stay.
        if notes:
            await self._report("hold", list(map(hold_note, notes)), kind="hold")
        if forgotten:
            with suppress(ServiceLost):
                await self.call("hold", "forget", forgotten)
        return bool(self._notes or self._forgotten)

    async def _report(self, method: str, *arguments: Any, kind: str = "wake") -> None:
        """Call a method that returns `Woken`, and report the woken pulls."""
        try:
            woken: Woken = await self.call(kind, method, *arguments)
        except ServiceLost:
            return
        hold_ids, deadline_ms = woken
        self._timer.cancel()
        if deadline_ms is not None and self._notifier is None:
            self._timer.start(max(0, deadline_ms - wall_ms()) / 1000)
        if hold_ids:
            self._events.woken(hold_ids)


def hold_note(note: HoldPull) -> tuple[Any, ...]:
    """Return a hold as plain parts."""
    codes = note.codes
    listed = None if codes is None or len(codes) > HOLD_CODES_MAX else list(codes)
    return (
        note.hold_id,
        note.topic,
        note.queue_id,
        note.queue_offset,
        note.deadline_ms,
        listed,
    )


def read_hold_note(parts: Sequence[Any]) -> HoldPull:
    """Return the hold of plain parts."""
    hold_id, topic, queue_id, queue_offset, deadline_ms, codes = parts
    wanted = None if codes is None else frozenset(codes)
    return HoldPull(hold_id, topic, queue_id, queue_offset, deadline_ms, wanted)
