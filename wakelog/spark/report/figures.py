"""The numbers of the report. Spark reads the log several times for them; few rows come back.

    totals      each topic: messages, bytes, times, latency, and counts by size
    intervals   the largest topics, and all others together, by store time
    keys        the most frequent keys of the largest topics
    lag         messages that groups have not consumed, by store time

Latency is that of `jobs/traffic.py`.

Invariants: the limits below bound what comes to the driver, for a log of any length.
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
"""With pictures of their own."""
INTERVALS_MAX: Final = 120
KEYS_MAX: Final = 10
"""Of one topic."""
SIZE_BITS: Final = range(6, 24)
"""Sizes are counted by their power of two: a record has 91 bytes at least, and 4 MiB at most."""

OTHERS: Final = ""
"""The name of all topics without a picture of their own, together."""


class TopicTotals(NamedTuple):
    """One topic. `sizes` counts messages by `SIZE_BITS`; latencies are None if unknown."""

    topic: str
    messages: int
    bytes: int
    first_ms: int
    last_ms: int
    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None
    sizes: tuple[int, ...]


class Sums(NamedTuple):
    """All topics together."""

    topics: int
    messages: int
    bytes: int
    first_ms: int
    last_ms: int


class Interval(NamedTuple):
    """The messages of a topic that were stored in [begin_ms, begin_ms + every_ms)."""

    topic: str
    begin_ms: int
    messages: int
    bytes: int
    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None


class HotKey(NamedTuple):
    """A key, and the share of its topic's messages that has it."""

    topic: str
    key: str
    messages: int
    bytes: int
    share: float


class Waiting(NamedTuple):
    """The messages of a topic and interval that a group has not consumed."""

    group: str
    topic: str
    begin_ms: int
    messages: int
    bytes: int


class Figures(NamedTuple):
    """All numbers. `groups` have committed offsets, each of the topics that are listed."""

    every_ms: int
    topics: Sequence[TopicTotals]
    sums: Sums
    intervals: Sequence[Interval]
    keys: Sequence[HotKey]
    groups: Mapping[str, Sequence[str]]
    waiting: Sequence[Waiting]

    @property
    def shown(self) -> list[str]:
        """The topics with pictures of their own, the largest first."""
        return shown_topics(self.topics)


def shown_topics(topics: Sequence[TopicTotals]) -> list[str]:
    """Return the topics with most messages."""
    return [each.topic for each in topics[:SHOWN_TOPICS_MAX]]


def interval_ms(sums: Sums) -> int:
    """Return the length of which `INTERVALS_MAX` cover the whole log."""
    # One less, because the first and the last interval reach beyond the log.
    return step_ms(sums.last_ms - sums.first_ms + 1, INTERVALS_MAX - 1)


def read_totals(messages: DataFrame) -> tuple[list[TopicTotals], Sums]:
    """Return the topics with most messages, and the sums of all.

    messages: topic, storeTimestamp, storeSize and `ms`, the latency or null.
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
        .coalesce(1)  # otherwise the kept table has a partition for each one of the shuffle
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


def read_occupied(
    messages: DataFrame, shown: Sequence[str], sums: Sums
) -> tuple[int, list[Interval]]:
    """Return the length of intervals and the intervals with messages.

    A log with long pauses gets shorter intervals, so that a burst is more than one column:
    `INTERVALS_MAX` intervals have to cover what was stored, but not the pauses.
    """
    every_ms = interval_ms(sums)
    while True:
        found = read_intervals(messages, shown, every_ms)
        occupied_count = len({each.begin_ms for each in found})
        shorter_ms = step_ms(occupied_count * every_ms, INTERVALS_MAX - 1)
        if 2 * shorter_ms > every_ms:
            return every_ms, found
        every_ms = shorter_ms


def read_intervals(messages: DataFrame, shown: Sequence[str], every_ms: int) -> list[Interval]:
    """Return the intervals with messages, of the topics shown and of all others together."""
    from pyspark.sql.functions import col, expr, when

    named = when(col("topic").isin(list(shown)), col("topic")).otherwise(OTHERS)
    table = (
        _timed(messages)
        .withColumn("topic", named)
        .withColumn("begin", expr(f"stored - pmod(stored, {every_ms})"))
        .groupBy("topic", "begin")
        .agg(expr("count(1) as messages"), expr("sum(storeSize) as bytes"), *map(expr, _LATENCIES))
        .orderBy("topic", "begin")
    )
    return [Interval(*row) for row in table.collect()]


def read_keys(hot: DataFrame, shown: Sequence[str]) -> list[HotKey]:
    """Return the most frequent keys of each topic shown, from the table of `hotkeys`."""
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
    """Return the rows of the table of `lag` that wait, with times as milliseconds."""
    table = lag.where("messages > 0").selectExpr(
        "`group`", "topic", "unix_millis(time)", "messages", "bytes"
    )
    return [Waiting(*row) for row in table.collect()]


_SUMS: Final = ("sum(messages)", "sum(bytes)", "min(first_ms)", "max(last_ms)")
_LATENCIES: Final = (
    "percentile_approx(ms, 0.5) as p50_ms",
    "percentile_approx(ms, 0.99) as p99_ms",
    "max(ms) as max_ms",
)


def _timed(messages: DataFrame) -> DataFrame:
    return messages.selectExpr("topic", "storeSize", "unix_millis(storeTimestamp) as stored", "ms")


def _size_count(bits: int) -> str:
    """Count messages of [2^bits, 2^(bits+1)) bytes; the first and the last are open."""
    low = "true" if bits == SIZE_BITS[0] else f"storeSize >= {1 << bits}"
    high = "true" if bits == SIZE_BITS[-1] else f"storeSize < {2 << bits}"
    return f"count_if({low} and {high})"
