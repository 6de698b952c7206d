"""Delayed messages: what waits at each level of each broker, what is overdue, what comes next."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.history import History
from wakelog.console.overdue import delivered_count, is_exact, overdue_count
from wakelog.console.quantities import NOTHING, span_text
from wakelog.console.views.lists import Head, ListOf
from wakelog.console.waiting import LATE_MS_MIN, DelayedMessage, LevelReading
from wakelog.protocol.names import RETRY_PREFIX
from wakelog.protocol.properties import REAL_TOPIC

DUE_SHOWN_MAX: Final = 50
"""Of the next messages."""

LEVELS: Final = ListOf(
    (
        Head("broker", "Broker and level", lambda row: (row.broker, row.level)),
        Head("waiting", "Waiting", lambda row: row.waiting, is_number=True),
        Head("due", "Next is due", lambda row: row.due_ms, is_number=True),
        Head("overdue", "Overdue", lambda row: row.overdue, is_number=True),
        Head("oldest", "Oldest stored", lambda row: row.stored_ms, is_number=True),
        Head("", "Delivered to", is_number=True),
        Head("", "Stored to", is_number=True),
    ),
    text=lambda row: f"{row.broker} {row.address} {row.delay}",
    sort="broker",
)


class LevelRow(NamedTuple):
    """A level of a broker. waiting: messages; overdue: how many of them.

    due_ms: of the next message that is not delivered yet, None if none waits. stored_ms: when that
    one was stored, None if that is not known.
    """

    broker: str
    address: str
    level: int
    delay_ms: int | None
    waiting: int
    overdue: int
    due_ms: int | None
    stored_ms: int | None
    delivered_to: int
    stored_to: int

    @property
    def delay(self) -> str:
        """The delay in words."""
        return "no delay known" if self.delay_ms is None else span_text(self.delay_ms)


class Unread(NamedTuple):
    """A broker whose delayed messages are not known, and why."""

    broker: str
    cause: str
    remedy: str


class DueRow(NamedTuple):
    """A delayed message. group: of a retry, whose it is; else "". due_ms: None if not known."""

    id: str
    broker: str
    level: int
    topic: str
    group: str
    keys: str
    due_ms: int | None
    stored_ms: int


def rows(history: History, cluster: ClusterReading) -> list[LevelRow]:
    """Return the levels that ever had a message."""
    return [
        level_row(broker, level, history)
        for broker in cluster.brokers
        if broker.messages is not None
        for level in broker.messages.levels
    ]


def level_row(broker: BrokerReading, level: LevelReading, history: History) -> LevelRow:
    """Return one level in numbers."""
    overdue = overdue_count(broker, level, history)
    passed = delivered_count(broker, level, history)
    waiting = level.end - level.offset - passed
    is_first_known = bool(waiting and level.first_due_ms and not passed)
    due_ms = level.first_due_ms if is_first_known else None
    stored_ms = None if due_ms is None or level.delay_ms is None else due_ms - level.delay_ms
    return LevelRow(
        broker.name,
        broker.address,
        level.level,
        level.delay_ms,
        waiting,
        overdue,
        due_ms,
        stored_ms,
        level.offset + passed,
        level.end,
    )


def summary(found: Iterable[LevelRow], now_ms: int) -> str:
    """Return in a sentence how many wait, how many are overdue, and by how long."""
    all_rows = list(found)
    waiting = sum(row.waiting for row in all_rows)
    if not waiting:
        return "No delayed message waits"
    text = "1 delayed message waits" if waiting == 1 else f"{waiting:,} delayed messages wait"
    overdue = sum(row.overdue for row in all_rows)
    due = [row.due_ms for row in all_rows if row.due_ms is not None]
    if overdue:
        first_ms = min(row.due_ms for row in all_rows if row.overdue and row.due_ms is not None)
        many = "1 is overdue" if overdue == 1 else f"{overdue:,} are overdue, the first"
        return f"{text}; {many} by {span_text(now_ms - first_ms)}"
    if due and min(due) > now_ms:
        return f"{text}; the next is due in {span_text(min(due) - now_ms)}"
    return text


def due_text(due_ms: int | None, now_ms: int) -> str:
    """Return when a message is due: in 4 s, now, 6 min overdue."""
    if due_ms is None:
        return NOTHING
    if due_ms > now_ms:
        return f"in {span_text(due_ms - now_ms)}"
    late_ms = now_ms - due_ms
    return "now" if late_ms < LATE_MS_MIN else f"{span_text(late_ms)} overdue"


def unread(cluster: ClusterReading) -> list[Unread]:
    """Return the masters of which it is not known what waits."""
    return [
        Unread(broker.name, broker.messages.failure.cause, broker.messages.failure.remedy)
        for broker in cluster.brokers
        if broker.messages is not None and broker.messages.failure is not None
    ]


def is_any_inexact(cluster: ClusterReading) -> bool:
    """Return whether a broker says only about how far it has delivered."""
    return any(
        broker.messages is not None and broker.messages.levels and not is_exact(broker)
        for broker in cluster.brokers
    )


def due_rows(messages: Iterable[DelayedMessage], now_ms: int) -> list[DueRow]:
    """Return the next messages, those that are due first."""
    found = [_due_row(each) for each in messages]
    found.sort(key=lambda row: now_ms if row.due_ms is None else row.due_ms)
    return found[:DUE_SHOWN_MAX]


def _due_row(each: DelayedMessage) -> DueRow:
    message, stored_ms = each.message, each.stored_ms
    topic = message.properties.get(REAL_TOPIC, "")
    group = topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else ""
    delay_ms = each.level.delay_ms
    return DueRow(
        message.offset_message_id,
        each.broker,
        each.level.level,
        topic,
        group,
        " ".join(message.keys),
        None if delay_ms is None else stored_ms + delay_ms,
        stored_ms,
    )
