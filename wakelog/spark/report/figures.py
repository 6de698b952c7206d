"""What the report shows, as numbers: a log is read for them four times, and little comes back.

    totals      each topic: messages, bytes, times, latency, and how large messages are
    intervals   the largest topics, and all others together, by the time of storing
    keys        the most frequent keys of the largest topics
    lag         what groups have not consumed, by the time of its storing

Latency is from a producer's clock to the broker's, as in `jobs/reports.py`.

Invariants: what comes to the driver is bounded by the limits below, however long the log is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from wakelog.spark.report.scales import step_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOPICS_MAX: Final = 200
"""In the table; the sums are of all topics."""
SHOWN_TOPICS_MAX: Final = 6
"""With a colour of their own: people tell so many apart."""
INTERVALS_MAX: Final = 120
KEYS_MAX: Final = 10
"""Of one topic."""
SIZE_BITS: Final = range(6, 24)
"""Sizes are counted by their power of two: a record has 91 bytes at least, and 4 MiB at most."""

OTHERS: Final = ""
"""In the place of a topic's name: all that have no colour of their own."""


class TopicTotals(NamedTuple):
    """One topic. Latencies are milliseconds, `sizes` counts of messages by `SIZE_BITS`."""

    topic: str
    messages: int
    bytes: int
    first_ms: int
    last_ms: int
    p50_ms: int
    p99_ms: int
    max_ms: int
    sizes: tuple[int, ...]


class Sums(NamedTuple):
    """All topics together."""

    topics: int
    messages: int
    bytes: int
    first_ms: int
    last_ms: int


class Interval(NamedTuple):
    """What was stored of a topic within `every_ms` from `begin_ms` on."""

    topic: str
    begin_ms: int
    messages: int
    bytes: int
    p50_ms: int
    p99_ms: int
    max_ms: int


class HotKey(NamedTuple):
    """A key, and which share of its topic's messages has it."""

    topic: str
    key: str
    messages: int
    bytes: int
    share: float


class Waiting(NamedTuple):
    """What a group has not consumed of a topic, of what was stored in one interval."""

    group: str
    topic: str
    begin_ms: int
    messages: int
    bytes: int


class Figures(NamedTuple):
    """All of it. `groups` are those that have committed offsets, with the topics of each."""

    every_ms: int
    topics: Sequence[TopicTotals]
    sums: Sums
    intervals: Sequence[Interval]
    keys: Sequence[HotKey]
    groups: Mapping[str, Sequence[str]]
    waiting: Sequence[Waiting]

    @property
    def shown(self) -> list[str]:
        """The topics that have a colour of their own, the largest first."""
        return shown_topics(self.topics)


def shown_topics(topics: Sequence[TopicTotals]) -> list[str]:
    """Return the topics with most messages, as many as have a colour."""
    return [each.topic for each in topics[:SHOWN_TOPICS_MAX]]


def interval_ms(sums: Sums) -> int:
    """Return the length of intervals that shows a whole log in a few of them."""
    # One less, since the first and the last interval reach beyond what was stored.
    return step_ms(sums.last_ms - sums.first_ms + 1, INTERVALS_MAX - 1)


def read_totals(messages: DataFrame) -> tuple[list[TopicTotals], Sums]:
    """Return the topics with most messages, and the sums of all.

    messages: topic, bornTimestamp, storeTimestamp, storeSize.
    """
    from pyspark.sql.functions import expr

    table = (
        _timed(messages)
        .groupBy("topic")
        .agg(
            expr("count(1) as messages"),
            expr("sum(storeSize) as bytes"),
            expr("min(stored) as first_ms"),
            expr("max(stored) as last_ms"),
            *map(expr, _LATENCIES),
            expr(f"array({', '.join(map(_size_count, SIZE_BITS))}) as sizes"),
        )
        .persist()
    )
    try:
        rows = table.orderBy("messages", "topic", ascending=[False, True]).limit(TOPICS_MAX)
        found = [
            TopicTotals(**{**row.asDict(), "sizes": tuple(row.sizes)}) for row in rows.collect()
        ]
        [sums] = table.selectExpr("count(1)", *(f"coalesce({x}, 0)" for x in _SUMS)).collect()
        return found, Sums(*sums)
    finally:
        table.unpersist()


def read_intervals(messages: DataFrame, shown: Sequence[str], every_ms: int) -> list[Interval]:
    """Return what was stored when, of the topics shown and of all others together."""
    from pyspark.sql.functions import col, expr, when

    named = when(col("topic").isin(list(shown)), col("topic")).otherwise(OTHERS)
    table = (
        _timed(messages)
        .withColumn("topic", named)
        .withColumn("begin", expr(f"stored - pmod(stored, {every_ms})"))
        .groupBy("topic", "begin")
        .agg(
            expr("count(1) as messages"),
            expr("sum(storeSize) as bytes"),
            *map(expr, _LATENCIES),
        )
        .orderBy("topic", "begin")
    )
    return [Interval(*row) for row in table.collect()]


def read_keys(hot: DataFrame, shown: Sequence[str]) -> list[HotKey]:
    """Return the first keys of each topic shown, of the table that `hotkeys` makes."""
    from pyspark.sql.functions import col, expr

    rank = "row_number() over (partition by topic order by messages desc, key) as rank"
    table = (
        hot.where(col("topic").isin(list(shown)))
        .select("topic", "key", "messages", "bytes", "share", expr(rank))
        .where(f"rank <= {KEYS_MAX}")
        .orderBy("topic", "rank")
    )
    return [HotKey(*row[:-1]) for row in table.collect()]


def read_waiting(lag: DataFrame) -> list[Waiting]:
    """Return the rows of the table that `lag` makes, with times as milliseconds."""
    table = lag.selectExpr("`group`", "topic", "unix_millis(time)", "messages", "bytes")
    return [Waiting(*row) for row in table.collect()]


_SUMS: Final = ("sum(messages)", "sum(bytes)", "min(first_ms)", "max(last_ms)")
_LATENCIES: Final = (
    "percentile_approx(ms, 0.5) as p50_ms",
    "percentile_approx(ms, 0.99) as p99_ms",
    "max(ms) as max_ms",
)


def _timed(messages: DataFrame) -> DataFrame:
    return messages.selectExpr(
        "topic",
        "storeSize",
        "unix_millis(storeTimestamp) as stored",
        "unix_millis(storeTimestamp) - unix_millis(bornTimestamp) as ms",
    )


def _size_count(bits: int) -> str:
    """Count messages of [2^bits, 2^(bits+1)) bytes; the first and the last take what is beyond."""
    low = "true" if bits == SIZE_BITS[0] else f"storeSize >= {1 << bits}"
    high = "true" if bits == SIZE_BITS[-1] else f"storeSize < {2 << bits}"
    return f"count_if({low} and {high})"
