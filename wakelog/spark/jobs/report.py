"""One HTML page about a log, with charts: rates, latency, sizes, lag and hot keys.

`spark/report/` draws it.

Invariants: the log is only read; the file is replaced in one step, so that a reader gets a whole
page.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from os.path import abspath
from typing import TYPE_CHECKING, Final, NamedTuple

from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.traffic import committed_offsets, hotkeys, lag, read_latencies
from wakelog.spark.report.figures import (
    Figures,
    read_keys,
    read_occupied,
    read_totals,
    read_waiting,
    shown_topics,
)
from wakelog.spark.report.page import page
from wakelog.spark.report.scales import SECOND_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS: Final = ("topic", "storeTimestamp", "storeSize")
OF_GROUPS: Final = {"includeRetry": "true", "includeDlq": "true"}
"""Retries and dead letters are traffic too."""


class ReportMade(NamedTuple):
    """The path of the page, and the size of what it shows."""

    path: str
    messages_count: int
    topics_count: int
    groups_count: int


def report(
    spark: SparkSession, store_path: str, into: str, *, options: Mapping[str, str] | None = None
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
    messages = read_latencies(spark, store_path, *COLUMNS, **options)
    topics, sums = read_totals(messages)
    shown = shown_topics(topics)
    every_ms, intervals = read_occupied(messages, shown, sums)
    groups = consuming_groups(store_path, options)
    every = f"{every_ms // SECOND_MS} seconds"
    return Figures(
        every_ms,
        topics,
        sums,
        intervals,
        read_keys(hotkeys(spark, store_path, options=options), shown),
        groups,
        read_waiting(lag(spark, store_path, every=every, options=options)) if groups else [],
    )


def consuming_groups(store_path: str, options: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the groups that have committed offsets in topics that are read, and these topics."""
    found: dict[str, set[str]] = {}
    for each in committed_offsets(store_path, options):
        found.setdefault(each.group, set()).add(each.topic)
    return {group: sorted(names) for group, names in sorted(found.items())}
