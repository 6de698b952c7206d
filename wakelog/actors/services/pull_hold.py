"""PullHold: knows which pulls wait for which queue, outside of the Broker's loop.

The Broker sends holds. Reput sends arrivals, by reference through the Broker. Wakes go to the
Broker. The core decides; the service has the timer of the next deadline.

Source: org.apache.rocketmq.broker.longpolling.PullRequestHoldService (4.9.3).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from wakelog.actors.services.client import ServiceClient, ServiceHandle, ServiceLost
from wakelog.actors.services.service import Service, Session
from wakelog.actors.services.session import BROKER
from wakelog.actors.transport.clocks import wall_ms
from wakelog.actors.transport.notifications import Note
from wakelog.actors.transport.timer import Timer
from wakelog.broker.decision import HoldPull
from wakelog.broker.pull_hold import PullHold
from wakelog.network.background import run_once
from wakelog.storage.queue.entries import Arrival

HOLD_CODES_MAX = 64
"""A pull of more tags is held as one of all tags: the Broker filters again, and a note stays under
1 KiB."""

CHECKS_PER_TURN_MAX = 256
"""Pulls that run again at once; that takes some milliseconds, then the loop serves others."""

NOTE_SECONDS: Final = 0.005
"""How long the Broker keeps the note of a held pull: most pulls of a busy queue end before."""

NOTES_KEPT_MAX: Final = 256
"""Notes that are kept; with so many they are sent at once."""

Woken = tuple[list[int], int | None]
"""The holds to wake, and the next deadline in milliseconds since 1970."""


class HoldNote(IntEnum):
    """The first part of a note to PullHold: the kind of the rest."""

    HOLD = 0
    FORGET = 1
    ARRIVAL = 2
    EXPIRE = 3


class PullHoldService(Service):
    """The service of `broker.pull_hold.PullHold`."""

    def __init__(self, session: Session) -> None:
        """Begin without holds."""
        super().__init__(session)
        self._core = PullHold()
        self._timer = Timer(lambda: self._on_notified([(HoldNote.EXPIRE,)]))
        self.on_release(self._timer.cancel)
        self._broker = self.notifier_to(BROKER)
        if self.has_notifications:
            self.listen(self._on_notified)

    def take(self, notes: Sequence[Sequence[Any]]) -> Woken:
        """Follow notes in their order; return the holds to wake, and the next deadline."""
        core = self._core
        woken: list[int] = []
        # Together, because one after the other they take several times as long.
        for kind, together in groupby(notes, itemgetter(0)):
            rows = [note[1:] for note in together]
            match kind:
                case HoldNote.HOLD:
                    woken += core.hold(map(read_hold_note, rows))
                case HoldNote.FORGET:
                    core.forget([hold_id for hold_ids in rows for hold_id in hold_ids])
                case HoldNote.ARRIVAL:
                    woken += core.arrived(map(Arrival._make, rows))
                case HoldNote.EXPIRE:
                    woken += core.expire(wall_ms())
        return woken, core.next_deadline_ms()

    def counters(self) -> dict[str, Any]:
        """Return the core's counters."""
        return self._core.statistics()

    def _on_notified(self, notes: Note) -> None:
        woken, deadline_ms = self.take(notes)
        if woken and self._broker is not None:
            self._broker.send((hold_id,) for hold_id in woken)
        self._timer.restart_at(deadline_ms, wall_ms())


class PullHoldClient(ServiceClient):
    """Sends holds, and reports which pulls are woken."""

    def __init__(
        self,
        handle: ServiceHandle,
        *,
        held_notes: Callable[[], list[HoldPull]],
        is_held: Callable[[HoldPull], bool],
        on_woken: Callable[[Sequence[int]], None],
    ) -> None:
        """Know of no hold.

        held_notes: returns a note for every pull that waits.
        is_held: returns whether a pull still waits under this note.
        on_woken: called with held pulls that may have something to read, or have waited enough.
        """
        super().__init__(handle)
        self.on_woken = on_woken
        self._held_notes = held_notes
        self._is_held = is_held
        self._kept: list[HoldPull] = []
        self._kept_timer = Timer(self.send_kept)
        self._notifier = handle.broker.notifier_to(handle.name)
        self._notes: Note = []
        # With notifications the service has the timer.
        self.timer = Timer(lambda: self.wake([(HoldNote.EXPIRE,)]))
        self._wakes: set[asyncio.Task[None]] = set()

    def hold(self, notes: Iterable[HoldPull]) -> None:
        """Send notes of held pulls soon; those that PullHold misses run again when it is attached.

        PullHold wakes a pull whose message came before its note.
        """
        self._kept += notes
        if len(self._kept) >= NOTES_KEPT_MAX:
            self.send_kept()
        else:
            self._kept_timer.start(NOTE_SECONDS)

    def send_kept(self) -> None:
        """Send the notes now of pulls that still wait."""
        self._kept_timer.cancel()
        kept, self._kept = self._kept, []
        waiting = [(HoldNote.HOLD, *hold_note(note)) for note in kept if self._is_held(note)]
        if waiting:
            self._send(waiting)

    def forget(self, hold_ids: Iterable[int]) -> None:
        """Have PullHold drop the notes of pulls whose connection is closed."""
        self._send((HoldNote.FORGET, hold_id) for hold_id in hold_ids)

    def on_attached(self, answer: Mapping[str, Any]) -> None:
        """Run every pull that waits again; the Broker holds those that find nothing once more.

        A new PullHold knows neither the pulls nor what arrived before it was attached.
        """
        self._notes.clear()
        self._kept.clear()
        self._run_again([note.hold_id for note in self._held_notes()])

    def wake(self, notes: Note | Awaitable[Note]) -> None:
        """Wake the pulls that wait for what notes say; `notes` may be a reference to them."""
        wake = run_once(self._call("wake", notes), self._on_attach_failed)
        self._wakes.add(wake)
        wake.add_done_callback(self._wakes.discard)

    async def stop_work(self) -> None:
        """Send nothing more."""
        self._kept_timer.cancel()
        for wake in list(self._wakes):
            wake.cancel()
        await super().stop_work()

    def _send(self, notes: Iterable[tuple[Any, ...]]) -> None:
        if self._notifier is not None:
            self._notifier.send(notes)
        elif self.is_attached:
            self._notes += notes
            self.worker.request()

    def _run_again(self, hold_ids: list[int]) -> None:
        self.on_woken(hold_ids[:CHECKS_PER_TURN_MAX])
        if len(hold_ids) > CHECKS_PER_TURN_MAX:
            asyncio.get_running_loop().call_soon(self._run_again, hold_ids[CHECKS_PER_TURN_MAX:])

    async def work(self) -> bool:
        """Send the notes that have gathered."""
        notes, self._notes = self._notes, []
        await self._call("hold", notes)
        return bool(self._notes)

    async def _call(self, kind: str, notes: Note | Awaitable[Note]) -> None:
        try:
            hold_ids, deadline_ms = await self.call(kind, "take", notes)
        except ServiceLost:
            return
        if self._notifier is None:
            self.timer.restart_at(deadline_ms, wall_ms())
        if hold_ids:
            self.on_woken(hold_ids)


def arrival_notes(arrivals: Iterable[Arrival]) -> Note:
    """Return the notes that say which queues have grown."""
    return [(HoldNote.ARRIVAL, *arrival) for arrival in arrivals]


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
