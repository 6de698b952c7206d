"""One page about a log: rates, latency, sizes, lag and hot keys, drawn.

The page is a file of its own that opens without a network; `spark/report/` draws it.

Invariants: only reads the log; the file is replaced in one step, so that a page that is looked at
is a whole one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from os.path import abspath
from typing import TYPE_CHECKING, Final, NamedTuple

from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.reports import committed_offsets, hotkeys, lag
from wakelog.spark.jobs.tables import ALL_TOPICS, read_times
from wakelog.spark.options import read_options
from wakelog.spark.report.figures import (
    Figures,
    interval_ms,
    read_intervals,
    read_keys,
    read_totals,
    read_waiting,
    shown_topics,
)
from wakelog.spark.report.page import page
from wakelog.spark.report.scales import SECOND_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS: Final = ("topic", "bornTimestamp", "storeTimestamp", "storeSize")
OF_GROUPS: Final = {"includeRetry": "true", "includeDlq": "true"}
"""What groups get once more, and what they gave up, is traffic too."""


class ReportMade(NamedTuple):
    """Where the page lies and what it is about."""

    path: str
    messages_count: int
    topics_count: int
    groups_count: int


def report(
    spark: SparkSession,
    store_path: str,
    into: str,
    *,
    options: Mapping[str, str] | None = None,
) -> ReportMade:
    """Draw the log of one or several stores into an HTML file.

    options: of the source, as `topic` or `startingTimestamp`; lag is of what they leave.
    Raises: JobFailed, SourceError, OSError.
    """
    options = {**OF_GROUPS, **(options or {})}
    if not os.path.isdir(os.path.dirname(abspath(into))) or os.path.isdir(into):
        raise JobFailed(f"{into} cannot be written", "give a file in a folder that is there")
    figures = read_figures(spark, store_path, options)
    unfinished = f"{into}.unfinished"
    with open(unfinished, "w", encoding="utf-8") as file:
        file.write(page(store_path, figures, time.time_ns() // 1_000_000))
    os.replace(unfinished, into)
    return ReportMade(into, figures.sums.messages, figures.sums.topics, len(figures.groups))


def read_figures(spark: SparkSession, store_path: str, options: Mapping[str, str]) -> Figures:
    """Read what the page shows. Raises: JobFailed, SourceError."""
    messages = read_times(spark, store_path, *COLUMNS, **options)
    topics, sums = read_totals(messages)
    shown, every_ms = shown_topics(topics), interval_ms(sums)
    groups = consuming_groups(store_path, options)
    every = f"{every_ms // SECOND_MS} seconds"
    return Figures(
        every_ms,
        topics,
        sums,
        read_intervals(messages, shown, every_ms),
        read_keys(hotkeys(spark, store_path, options=options), shown),
        groups,
        read_waiting(lag(spark, store_path, every=every, options=options)) if groups else [],
    )


def consuming_groups(store_path: str, options: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the groups that have committed offsets, and of which of the topics that are read."""
    topics = read_options({**ALL_TOPICS, **options, "path": store_path}).topics
    found: dict[str, set[str]] = {}
    for each in committed_offsets(store_path):
        if topics.accept(each.broker, each.topic, each.queue_id):
            found.setdefault(each.group, set()).add(each.topic)
    return {group: sorted(names) for group, names in sorted(found.items())}
