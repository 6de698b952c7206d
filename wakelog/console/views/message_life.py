"""The life of one message: what happened to it, in the order of time, and where on a line."""

from typing import Final, NamedTuple

from wakelog.client.message_life import Life
from wakelog.client.trace_notes import PUB, SUB_BEFORE, TraceRow
from wakelog.client.tracks import (
    CONSUMED,
    CONSUMED_BUT_FILTERED,
    NOT_CONSUME_YET,
    NOT_ONLINE,
    PULL,
)
from wakelog.console.quantities import span_text
from wakelog.console.views.messages import visible
from wakelog.protocol.properties import RETRY_TOPIC

LINE_WIDTH: Final = 1_000
LINE_EDGE: Final = 16
AXIS_Y: Final = 28
LINE_HEIGHT: Final = AXIS_Y + 12
NEAR: Final = 40
"""Events that are nearer than this to the first of a mark share it."""
_STATES: Final = ("plain", "done", "warning", "problem")
"""Of marks; that of several events is the last of these."""
YEARS_MS: Final = 10 * 365 * 86_400_000
"""A producer's clock that is further away is not on the line."""

_TRACK_TEXTS: Final = {
    CONSUMED: "consumed",
    CONSUMED_BUT_FILTERED: "passed over: its tag does not fit the subscription",
    NOT_CONSUME_YET: "not consumed yet",
    NOT_ONLINE: "unknown: no client of the group is online",
    PULL: "unknown: the group pulls, and keeps its own offsets",
}


class LifeStep(NamedTuple):
    """Something that happened. time_ms: None if nobody noted when. state: a class of the page.

    number: of its mark on the line, 0 without one. link: the id of another message.
    """

    time_ms: int | None
    what: str
    by: str = ""
    detail: str = ""
    state: str = ""
    link: str = ""
    number: int = 0
    after: str = ""


class TimeMark(NamedTuple):
    """Events on the line that are near to each other. numbers: 3, or 3-5 for several."""

    numbers: str
    x: float
    state: str
    label: str


class TimeLine(NamedTuple):
    """The line of time. span: how long it is, in words."""

    marks: list[TimeMark]
    span: str
    width: int = LINE_WIDTH
    height: int = LINE_HEIGHT
    axis_y: int = AXIS_Y
    edge: int = LINE_EDGE


def events_of(life: Life) -> list[LifeStep]:
    """Return what happened to a message: by time, then what has none."""
    record = life.message.record
    born = record.born_timestamp_ms
    stored_ms = record.store_timestamp_ms
    born_host, store_host = (
        f"{host}:{port}" for host, port in (record.born_host, record.store_host)
    )
    born_ms = born if abs(stored_ms - born) < YEARS_MS else None
    place = f"queue {life.message.queue_id}, offset {life.message.queue_offset:,}"
    late = "" if born_ms is not None else f"its producer's clock says {born:,} ms"
    events = [
        LifeStep(born_ms, "born", born_host, late),
        LifeStep(
            stored_ms, "stored", store_host, f"at {record.physical_offset:,} of the log", "done"
        ),
    ]
    if life.ends is not None:
        events.append(_dispatched(life, place))
    for group, each in life.retries:
        times = f"time {each.reconsume_times}"
        events.append(
            LifeStep(
                each.record.store_timestamp_ms, "retried", group, times, "warning",
                each.offset_message_id,
            )
        )  # fmt: skip
    for group, each in life.dead:
        events.append(
            LifeStep(
                each.record.store_timestamp_ms, "dead", group,
                f"given up after {each.reconsume_times} times", "problem", each.offset_message_id,
            )
        )  # fmt: skip
    events += [x._replace(detail=f"trace: {x.detail}") for x in map(traced, life.traces)]
    gave_up = {group for group, _ in life.dead}
    for track in life.tracks:
        text = _TRACK_TEXTS.get(track.kind, "unknown")
        detail = f"its offset is {track.offset:,}" if track.offset is not None else ""
        if track.kind not in _TRACK_TEXTS:
            detail = visible(track.description or "")
        state = "done" if track.kind == CONSUMED else ""
        if track.kind == CONSUMED and track.group in gave_up:
            text, state = "given up", "problem"  # its offset is past it all the same
        events.append(LifeStep(None, text, track.group, detail, state))
    timed = sorted((x for x in events if x.time_ms is not None), key=lambda x: x.time_ms or 0)
    first_ms = timed[0].time_ms or 0
    shown = [
        each._replace(number=number, after=after_text((each.time_ms or 0) - first_ms))
        for number, each in enumerate(timed, 1)
    ]
    shown += [each for each in events if each.time_ms is None]
    return [each._replace(by=visible(each.by), detail=visible(each.detail)) for each in shown]


def _dispatched(life: Life, place: str) -> LifeStep:
    low, high = life.ends or (0, 0)
    offset = life.message.queue_offset
    if offset >= high:
        return LifeStep(
            None, "not dispatched yet", "", f"{place} is beyond the queue's end {high:,}"
        )
    if offset < low:
        return LifeStep(None, "expired", "", f"the queue begins at {low:,} now", "warning")
    return LifeStep(None, "dispatched", "", place, "done")


def traced(row: TraceRow) -> LifeStep:
    """Return what a client has recorded of a message."""
    where, time_ms = f"{row.group} at {row.client_host}", row.time_ms or None
    if row.kind == SUB_BEFORE:
        return LifeStep(time_ms, "given to a consumer", where, f"retry {row.retries}")
    done, failed = (
        ("sent", "send failed") if row.kind == PUB else ("consumed", "consumption failed")
    )
    words = (done, "done") if row.is_success else (failed, "problem")
    return LifeStep(time_ms, words[0], where, f"took {row.cost_ms} ms", words[1])


def after_text(elapsed_ms: int) -> str:
    """Return how long after the first event: +12 ms, +3 min 2 s."""
    return f"+{elapsed_ms} ms" if elapsed_ms < 10_000 else f"+{span_text(elapsed_ms)}"


def line_of(events: list[LifeStep]) -> TimeLine:
    """Return the places of events on one line of time."""
    timed = [each for each in events if each.number and each.time_ms is not None]
    times = [each.time_ms or 0 for each in timed]
    low, high = min(times, default=0), max(times, default=0)
    wide = max(1, high - low)
    near: list[tuple[float, list[LifeStep]]] = []
    for each, time_ms in zip(timed, times, strict=True):
        x = LINE_EDGE + (time_ms - low) / wide * (LINE_WIDTH - 2 * LINE_EDGE)
        if near and x - near[-1][0] < NEAR:
            near[-1][1].append(each)
        else:
            near.append((x, [each]))
    return TimeLine(
        [_mark(x, events) for x, events in near], after_text(high - low).removeprefix("+")
    )


def _mark(x: float, events: list[LifeStep]) -> TimeMark:
    first, last = events[0].number, events[-1].number
    state = max((each.state or "plain" for each in events), key=_STATES.index)
    label = "; ".join(" ".join(filter(None, (x.what, x.by, x.after))) for x in events)
    return TimeMark(str(first) if first == last else f"{first}-{last}", round(x, 1), state, label)


def origin_of(life: Life) -> str:
    """Return the topic that a retried or dead message came from, "" for others."""
    return visible(life.message.properties.get(RETRY_TOPIC, ""))
