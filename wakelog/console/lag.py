"""How far behind a group is in messages and in time, whether it falls further, and since when.

A broker knows when the last message was stored that a group consumed of a queue. Of a message that
came after a quiet hour that says nothing. Then it counts until when the group may have had all of
the queue: a message that has just come is not late.

Rates are those of the last `RECENT_MS`, as a straight line through what was read. A group that
falls no further since `SETTLED_MS` has its rate from then on.

Nothing here knows a clock.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from wakelog.protocol.bodies import OffsetWrapper
from wakelog.protocol.body_codec import MessageQueue

RECENT_MS: Final = 300_000
SETTLED_MS: Final = 60_000

MESSAGES_MIN: Final = 100
"""Of a group that is behind; fewer are those between two commits."""
LATE_MS_MIN: Final = 60_000
"""For how long what waits first has waited, of a group that is behind."""

Point = tuple[int, float]
"""A time in milliseconds, and the messages that waited then."""


class Trend(NamedTuple):
    """How a lag moved in the last hour.

    a_second: messages by which it grows, negative for one that shrinks.
    lowest_ms: when it was smallest, the last time. grown: by how much it grew since then.
    """

    a_second: float
    lowest_ms: int
    grown: int


class GroupLag(NamedTuple):
    """How far behind a group is. topic: the one with the most lag.

    behind_ms: for how long what waits first has waited; None with nothing to do, or if that is
        not known.
    left_ms: until it has everything at its present rate; None if it will not.
    is_growing: whether more and more waits; since_ms: since when, and grown: messages since then.
    """

    messages: int
    topic: str = ""
    behind_ms: int | None = None
    left_ms: float | None = None
    is_growing: bool = False
    since_ms: int = 0
    grown: int = 0


def is_late(lag: GroupLag, now_ms: int) -> bool:
    """Return whether more waits than what is on its way."""
    waits_ms = lag.behind_ms
    if waits_ms is None:
        waits_ms = now_ms - lag.since_ms if lag.is_growing else 0
    return lag.messages >= MESSAGES_MIN and waits_ms > LATE_MS_MIN


def falls_behind(lag: GroupLag, now_ms: int) -> bool:
    """Return whether a group falls further behind."""
    return lag.is_growing and is_late(lag, now_ms)


def lag_of(
    places: Mapping[MessageQueue, OffsetWrapper],
    clear_ms: Mapping[MessageQueue, int],
    trend: Trend | None,
    now_ms: int,
) -> GroupLag:
    """Return how far behind a group is.

    places: where it is in its queues. clear_ms: until when it may have had all of a queue.
    """
    by_topic: Counter[str] = Counter()
    for queue, place in places.items():
        by_topic[queue.topic] += max(0, place.broker_offset - place.consumer_offset)
    messages = by_topic.total()
    if messages == 0:
        return GroupLag(0, left_ms=0.0)
    [(topic, _)] = by_topic.most_common(1)
    behind_ms = behind_of(places, clear_ms, now_ms)
    if trend is None or trend.a_second == 0:
        return GroupLag(messages, topic, behind_ms)
    if trend.a_second > 0:
        return GroupLag(messages, topic, behind_ms, None, True, trend.lowest_ms, trend.grown)
    return GroupLag(messages, topic, behind_ms, messages * 1000 / -trend.a_second)


def trend_of(times_ms: Sequence[int], messages: Sequence[float]) -> Trend | None:
    """Return how a lag moved, None if it was known less than twice. NaN: it was not known."""
    points = [(x, y) for x, y in zip(times_ms, messages, strict=False) if not math.isnan(y)]
    if len(points) < 2 or points[0][0] == points[-1][0]:
        return None
    _, now = points[-1]
    lowest = min(y for _, y in points)
    lowest_ms = max(x for x, y in points if y == lowest)
    return Trend(_slope(_recent(points)) * 1000, lowest_ms, round(now - lowest))


def behind_of(
    places: Mapping[MessageQueue, OffsetWrapper], clear_ms: Mapping[MessageQueue, int], now_ms: int
) -> int | None:
    """Return for how long what waits first has waited, None if nothing does; see `GroupLag`."""
    begins = [
        max(place.last_timestamp, clear_ms.get(queue, 0))
        for queue, place in places.items()
        if place.broker_offset > place.consumer_offset
    ]
    begin_ms = min((x for x in begins if x > 0), default=0)
    return max(0, now_ms - begin_ms) if begin_ms else None


def _recent(points: Sequence[Point]) -> Sequence[Point]:
    """Return the points that say what the rate is now, two at least."""
    now_ms = points[-1][0]
    first = sum(1 for x, _ in points if x < now_ms - RECENT_MS)
    found = points[min(first, len(points) - 2) :]
    highest = max(y for _, y in found)
    at = max(n for n, (_, y) in enumerate(found) if y == highest)
    return found[at:] if now_ms - found[at][0] >= SETTLED_MS else found


def _slope(points: Sequence[Point]) -> float:
    """Return by how much a straight line through points rises in a millisecond."""
    middle_ms = sum(x for x, _ in points) / len(points)
    middle = sum(y for _, y in points) / len(points)
    spread = sum((x - middle_ms) ** 2 for x, _ in points)
    return sum((x - middle_ms) * (y - middle) for x, y in points) / spread if spread else 0.0
