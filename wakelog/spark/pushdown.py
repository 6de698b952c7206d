"""Filters of a query that narrow what is read: which queues, which offsets, which times.

    filter on               narrows
    topic, brokerName       which queues are asked for (=, in)
    queueId                 likewise
    queueOffset             every queue's bounds (=, <, <=, >, >=)
    storeTimestamp          every record's time, to the ms; with `maxClockStep` which bytes are read

Everything else, and anything below a `not`, is left to Spark, which applies all filters again.

Invariants: a record that matches a filter is never left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from wakelog.protocol.java import LONG_MAX
from wakelog.spark.bounds import EVERYTHING, Bounds, Selection

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KAFKA_NAMES: Final = {
    "partition": "queueId",
    "offset": "queueOffset",
    "timestamp": "storeTimestamp",
    "topic": "topic",
}
_SETS: Final = {"topic": "topic_names", "brokerName": "broker_names", "queueId": "queue_ids"}


def push(selection: Selection, filters: Iterable[Filter], *, kafka: bool = False) -> Selection:
    """Return what is left of a selection under filters, all of which have to hold."""
    for each in filters:
        path: tuple[str, ...] = getattr(each, "attribute", ())
        if len(path) == 1:
            name = _KAFKA_NAMES.get(path[0], "") if kafka else path[0]
            selection = _pushed(selection, name, each)
    return selection


def _pushed(selection: Selection, name: str, each: Filter) -> Selection:
    if name in _SETS and (values := _values(each)) is not None:
        known: frozenset[Any] | None = getattr(selection, _SETS[name])
        found: Any = values if known is None else known & values
        return selection._replace(**{_SETS[name]: found})
    span = _span(each)
    if span is None:
        return selection
    begin, end = span
    if name == "queueOffset" and isinstance(begin, int | None) and isinstance(end, int | None):
        bounds = Bounds(
            queue_begin=EVERYTHING.queue_begin if begin is None else begin,
            queue_end=EVERYTHING.queue_end if end is None else min(end + 1, LONG_MAX),
        )
        return selection._replace(everywhere=selection.everywhere.within(bounds))
    if name == "storeTimestamp":
        low, high = selection.store_ms or (-LONG_MAX, LONG_MAX)
        if isinstance(begin, datetime):
            low = max(low, _floor_ms(begin))
        if isinstance(end, datetime):
            high = min(high, _floor_ms(end) + 1)
        return selection._replace(store_ms=(low, high))
    return selection


def _values(each: Filter) -> frozenset[Any] | None:
    if isinstance(each, EqualTo | EqualNullSafe):
        return frozenset((each.value,))
    return frozenset(each.value) if isinstance(each, In) else None


def _span(each: Filter) -> tuple[Any, Any] | None:
    """Return the least and the largest value that may match, None for no bound."""
    if isinstance(each, EqualTo | EqualNullSafe):
        return each.value, each.value
    if isinstance(each, GreaterThan | GreaterThanOrEqual):
        return each.value, None
    if isinstance(each, LessThan | LessThanOrEqual):
        return None, each.value
    return None


def _floor_ms(moment: datetime) -> int:
    """Return the millisecond that a moment lies in."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (zoned - _EPOCH) // timedelta(milliseconds=1)
