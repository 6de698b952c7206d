"""The trace of messages as rows: the send, and the begin and end of each consumption."""

from collections.abc import Sequence
from typing import NamedTuple

from wakelog.client.trace_notes import TraceRow
from wakelog.console.views.message_life import LifeStep, after_text, traced
from wakelog.console.views.messages import visible


class TracedMessage(NamedTuple):
    """What clients did with one message, by time."""

    id: str
    topic: str
    events: list[LifeStep]


def by_message(rows: Sequence[TraceRow]) -> list[TracedMessage]:
    """Return the traces of each message, in the order of their first notes."""
    found: dict[str, list[TraceRow]] = {}
    for row in rows:
        found.setdefault(row.message_id, []).append(row)
    return [
        TracedMessage(
            visible(name),
            visible(next((each.topic for each in of_one if each.topic), "")),
            _events(of_one),
        )
        for name, of_one in found.items()
    ]


def _events(rows: list[TraceRow]) -> list[LifeStep]:
    known = [each.time_ms for each in rows if each.time_ms]
    first_ms = min(known, default=0)
    timed = sorted(rows, key=lambda row: (not row.time_ms, row.time_ms))
    return [_event(row, number, first_ms) for number, row in enumerate(timed, 1)]


def _event(row: TraceRow, number: int, first_ms: int) -> LifeStep:
    event = traced(row)
    event = event._replace(by=visible(event.by))
    if event.time_ms is None:
        return event
    return event._replace(number=number, after=after_text(event.time_ms - first_ms))
