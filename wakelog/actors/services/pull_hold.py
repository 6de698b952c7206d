"""The PullHold actor: keeps who waits for which queue, away from the Broker's loop.

Holds come from the Broker, arrivals from Reput (or by way of the Broker, with references), wakes go
to the Broker. The core decides; this shell carries, and has the timer for the next deadline.

Source: org.apache.rocketmq.broker.longpolling.PullRequestHoldService (4.9.3).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgspec

from wakelog.actors.services.broker_events import AttachRequest, read_hold_note
from wakelog.actors.services.session import BROKER_SERVICE, Refused, ServiceSession, attached
from wakelog.actors.transport.clocks import wall_ms
from wakelog.actors.transport.notifications import Notifier
from wakelog.actors.transport.service_plan import read_plan
from wakelog.broker.pull_hold import PullHold
from wakelog.dispatchers.reput import Arrival
from wakelog.storage.file_system import RealFileSystem

SERVICE = "pull_hold"

Woken = tuple[list[int], int | None]
"""Whom to wake, and when the next deadline is."""


class HoldNote(IntEnum):
    """The first part of a note to PullHold: what the rest of it is."""

    HOLD = 0
    FORGET = 1
    ARRIVAL = 2


class PullHoldService:
    """The shell of `broker.pull_hold.PullHold`."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """Hold nothing until attached."""
        self._plan = read_plan(plan)
        self._core = PullHold()
        self._session: ServiceSession | None = None
        self._broker: Notifier | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def ping(self) -> int:
        """Return this process's id, to show that the loop turns."""
        return os.getpid()

    def attach(self, attachment: dict[str, Any]) -> dict[str, Any]:
        """Forget everything and work for this incarnation of the Broker."""
        self.release()
        session = ServiceSession(
            self._plan,
            SERVICE,
            msgspec.convert(attachment, AttachRequest),
            fs=RealFileSystem(),
            store=self._plan.settings.store,
            answer=self._answer,
        )
        if session.has_notifications:
            self._broker = session.notifier_to(BROKER_SERVICE)
        self._session = session
        return attached()

    def release(self) -> None:
        """Forget everything."""
        self._core.clear()
        self._set_timer(None)
        self._broker = None
        if self._session is not None:
            self._session.close()
            self._session = None

    def hold(self, epoch: int, notes: Sequence[Sequence[Any]]) -> Woken:
        """Take notes in; return whom of them to wake at once, and the next deadline."""
        self._check(epoch)
        woken = self._core.hold(map(read_hold_note, notes))
        return woken, self._core.next_deadline_ms()

    def arrived(self, epoch: int, arrivals: Sequence[Sequence[Any]]) -> Woken:
        """Say that queues have grown; return whom to wake, and the next deadline."""
        self._check(epoch)
        woken = self._core.arrived(map(Arrival._make, arrivals))
        return woken, self._core.next_deadline_ms()

    def forget(self, epoch: int, hold_ids: Sequence[int]) -> None:
        """Drop holds."""
        self._check(epoch)
        self._core.forget(hold_ids)

    def expire(self, epoch: int) -> Woken:
        """Return whose deadline has come, and the next deadline."""
        self._check(epoch)
        return self._core.expire(wall_ms()), self._core.next_deadline_ms()

    def statistics(self) -> dict[str, Any]:
        """Return the core's counters."""
        return dict(msgspec.to_builtins(self._core.statistics()))

    def _check(self, epoch: int) -> None:
        if self._session is None:
            raise Refused("not attached")
        self._session.check(epoch)

    def _answer(self, notes: list[tuple[Any, ...]]) -> None:
        """Answer the notification: take notes in, in their order, and ring for whom they wake."""
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
        assert self._broker is not None
        if hold_ids:
            self._broker.send((hold_id,) for hold_id in hold_ids)
        self._set_timer(self._core.next_deadline_ms())

    def _expire(self) -> None:
        self._timer = None
        self._wake(self._core.expire(wall_ms()))

    def _set_timer(self, deadline_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            delay_seconds = max(0, deadline_ms - wall_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_seconds, self._expire)
