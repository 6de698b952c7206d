"""What the Broker asks of its neighbours and what it hears from them, whatever the transport.

Each kind of work has a line of its own. A line takes what is wanted and returns at once; what
comes of it arrives as an event, on the Broker's loop. Lines batch naturally: what is asked while a
crossing is in flight goes with the next.

    line      the Broker says                           and hears
    dispatch  consumers may see the log up to here      how far the queues reach
    holds     these pulls wait; those do no more        whom to wake
    flush     the log ends here; somebody waits         what is durable, or that a sync failed
    commit    the pool's buffers end here               how far the segments hold the log
    segments  the log writes to this segment now        the next one, when the log takes it
    delays    the queues reach this far                 which delayed messages are due
    retention the log ends here, dispatch is there      what was removed, whether the disk is full
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from wakelog.broker.decision import HoldPull
from wakelog.broker.schedule import DueMessage

RECHECK_SECONDS = 1.0
"""After so long without progress, with work outstanding, a notification is taken for lost."""

HOLD_CODES_MAX = 64
"""A pull of more tags is told to PullHold as one of all tags: the Broker filters again, and a note
stays under 1 KiB."""


class AttachRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a neighbour is told when it is attached; words as the Broker knows them.

    delay_positions: the queue offset of the next message to deliver, by delay level.
    clean_exit: whether the broker before stopped in order.
    dispatch_from: where recovery says that dispatch begins; None unless the Broker recovered since
        Reput was attached last.
    """

    epoch: int
    store_id: str
    appended: int
    committed: int
    flushed: int
    readable: int
    dispatched: int
    delay_positions: dict[int, int]
    clean_exit: bool = False
    dispatch_from: int | None = None


class BrokerEvents(Protocol):
    """What the Broker hears and is asked; heard on its loop, never from within a line's method."""

    def attachment(self) -> AttachRequest:
        """Return what a neighbour that is attached now has to know."""
        ...

    def is_awaited(self) -> bool:
        """Whether a pull waits for what is put next."""
        ...

    def held_notes(self) -> list[HoldPull]:
        """Return a note for every pull that waits, for a PullHold that starts anew."""
        ...

    def dispatched(self, physical_offset: int) -> None:
        """The queues hold every message that ends at or below."""
        ...

    def flushed(self, physical_offset: int) -> None:
        """Every byte below is durable."""
        ...

    def flush_failed(self, cause: str) -> None:
        """A sync failed: nothing may be called durable any more."""
        ...

    def committed(self, physical_offset: int) -> None:
        """The segments hold every byte below."""
        ...

    def woken(self, hold_ids: Sequence[int]) -> None:
        """These held pulls may have something to read, or have waited long enough."""
        ...

    def retained(self, *, begin_offset: int, disk_full: bool) -> None:
        """The log begins here now, and the disk takes messages or does not."""
        ...

    async def deliver(self, due: Sequence[DueMessage]) -> Mapping[int, int]:
        """Put delayed messages that are due; return the next queue offset of each level."""
        ...


class DispatchLine(Protocol):
    """To Reput."""

    def readable(self, physical_offset: int) -> None:
        """Have the log dispatched up to here, soon."""
        ...

    def hurry(self) -> None:
        """Have it dispatched now: somebody waits for the queues."""
        ...

    def look(self) -> None:
        """Take over how far dispatch has come, if that can be known without asking."""
        ...


class HoldLine(Protocol):
    """To PullHold."""

    def hold(self, notes: Iterable[HoldPull]) -> None:
        """Tell of pulls that wait."""
        ...

    def forget(self, hold_ids: Iterable[int]) -> None:
        """Tell of pulls that wait no more."""
        ...


class FlushLine(Protocol):
    """To Flush."""

    def appended(self, *, appended: int, committed: int, stored_ms: int) -> None:
        """Note how far log and segments reach; it will be flushed in time.

        stored_ms: the store time of the last message below `appended`, 0 if unknown.
        """
        ...

    def want(self) -> None:
        """Flush now what is committed: somebody waits for it."""
        ...

    def lost(self) -> None:
        """Do without Flush what is waited for: it has died."""
        ...


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
    """Return the hold that plain parts stand for."""
    hold_id, topic, queue_id, queue_offset, deadline_ms, codes = parts
    wanted = None if codes is None else frozenset(codes)
    return HoldPull(hold_id, topic, queue_id, queue_offset, deadline_ms, wanted)
