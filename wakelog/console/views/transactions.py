"""Half messages: those that wait for the end of their transaction, and those that were given up."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.quantities import span_text
from wakelog.console.waiting import OpenHalf, OpenHalves

HALVES_SHOWN_MAX: Final = 50
GIVEN_UP_SHOWN_MAX: Final = 50
GROUPS_SHOWN_MAX: Final = 100


class HalvesRow(NamedTuple):
    """A broker's half messages. to_check: that its check has not passed, ended ones among them.

    is_whole: all of them were read. checks_max: after so many questions it gives one up.
    """

    broker: str
    open: int
    is_whole: bool
    to_check: int
    given_up: int
    checks_max: str
    every: str
    offset: int
    end: int


class OpenGroupRow(NamedTuple):
    """What a producer group has left open. oldest_ms: when its oldest one was born."""

    group: str
    topics: tuple[str, ...]
    open: int
    oldest_ms: int
    checks: int


def masters(cluster: ClusterReading) -> list[BrokerReading]:
    """Return the masters that have half messages to look at."""
    return [x for x in cluster.brokers if x.messages is not None and x.messages.halves is not None]


def broker_rows(cluster: ClusterReading, found: Iterable[OpenHalves]) -> list[HalvesRow]:
    """Return the brokers that ever had half messages."""
    by_broker = {each.broker: each for each in found}
    result = []
    for broker in masters(cluster):
        assert broker.messages is not None and broker.messages.halves is not None
        halves = broker.messages.halves
        part = by_broker.get(broker.name, OpenHalves(broker.name))
        every = broker.in_use.get("transactionCheckInterval", "")
        if halves.end or halves.given_up:
            result.append(
                HalvesRow(
                    broker.name,
                    len(part.halves),
                    part.read >= part.total and part.ops_read >= part.ops_total,
                    halves.end - halves.offset,
                    halves.given_up,
                    broker.in_use.get("transactionCheckMax", ""),
                    span_text(int(every)) if every.isdigit() else "",
                    halves.offset,
                    halves.end,
                )
            )
    return result


def group_rows(found: Iterable[OpenHalves]) -> list[OpenGroupRow]:
    """Return the producer groups that have left half messages open, the oldest first."""
    by_group: dict[str, list[OpenHalf]] = {}
    for part in found:
        for half in part.halves:
            by_group.setdefault(half.group, []).append(half)
    rows = [
        OpenGroupRow(
            group,
            tuple(sorted({half.topic for half in halves})),
            len(halves),
            min(half.born_ms for half in halves),
            max(half.checks for half in halves),
        )
        for group, halves in by_group.items()
    ]
    return sorted(rows, key=lambda row: (row.oldest_ms, row.group))


def oldest(found: Iterable[OpenHalves]) -> list[OpenHalf]:
    """Return the half messages that are not ended, the oldest first."""
    halves = [half for part in found for half in part.halves]
    return sorted(halves, key=lambda half: (half.born_ms, half.id))[:HALVES_SHOWN_MAX]


def given_up(found: Iterable[OpenHalves]) -> list[OpenHalf]:
    """Return the half messages that were given up, the newest first."""
    halves = [half for part in found for half in part.given_up]
    return sorted(halves, key=lambda half: (-half.stored_ms, half.id))[:GIVEN_UP_SHOWN_MAX]


def limits(found: Sequence[OpenHalves]) -> list[str]:
    """Return what of the queues was not read, in sentences."""
    said = []
    for part in found:
        if part.failure is not None:
            said.append(f"{part.broker}: {part.failure.cause}")
            continue
        if part.read < part.total:
            said.append(
                f"of {part.broker} the first {part.read:,} of {part.total:,} half messages were "
                "read: there may be more that are open"
            )
        if part.ops_read < part.ops_total:
            said.append(
                f"of {part.broker} the first {part.ops_read:,} of {part.ops_total:,} ends of "
                "transactions were read: some that are shown as open may be ended"
            )
    return said


def summary(found: Sequence[OpenHalves], now_ms: int) -> str:
    """Return in a sentence how many half messages are open, and how old the oldest is."""
    halves = [half for part in found for half in part.halves]
    if not halves:
        return "No transaction is open"
    is_whole = all(x.read >= x.total and x.ops_read >= x.ops_total for x in found)
    about = "" if is_whole else "about "
    text = "1 transaction is open" if len(halves) == 1 else f"{len(halves):,} transactions are open"
    oldest_ms = min(half.born_ms for half in halves)
    return f"{about}{text}; the oldest for {span_text(now_ms - oldest_ms)}".capitalize()
