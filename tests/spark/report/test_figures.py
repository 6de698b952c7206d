"""Numbers of a log that is known."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fakes.records import STORE_MS, LogBytes, properties
from tests.spark.logs import write_segments
from wakelog.spark.jobs.report import COLUMNS
from wakelog.spark.jobs.traffic import hotkeys, read_latencies
from wakelog.spark.report.figures import (
    OTHERS,
    SIZE_BITS,
    HotKey,
    Interval,
    Sums,
    interval_ms,
    read_intervals,
    read_keys,
    read_occupied,
    read_totals,
)

BEGIN_MS = STORE_MS - STORE_MS % 1000


def test_intervals_show_a_log_in_a_few() -> None:
    assert interval_ms(Sums(0, 0, 0, 0, 0)) == 1000
    assert interval_ms(Sums(1, 2, 3, BEGIN_MS, BEGIN_MS + 3_600_000)) == 60_000


@pytest.mark.spark
@pytest.mark.slow
def test_totals_intervals_and_keys_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    log = LogBytes(1 << 16)
    for i in range(6):
        log.add(
            properties(KEYS=f"all k{i % 2}"),
            topic="A" if i else "B",
            store_timestamp_ms=BEGIN_MS + 500 * i,
            born_timestamp_ms=BEGIN_MS + 490 * i,
            body=b"x" * (100 if i < 5 else 5000),
        )
    folder = str(write_segments(tmp_path / "log", log))
    messages = read_latencies(spark, folder, *COLUMNS)
    topics, sums = read_totals(messages)
    assert sums == Sums(2, 6, log.end, BEGIN_MS, BEGIN_MS + 2500)
    first, second = topics
    assert (first.topic, first.messages, first.first_ms) == ("A", 5, BEGIN_MS + 500)
    assert (first.p50_ms, first.p99_ms, first.max_ms) == (30, 50, 50)
    assert {bits: count for bits, count in zip(SIZE_BITS, first.sizes, strict=True) if count} == {
        7: 4,
        12: 1,
    }
    assert (second.messages, sum(second.sizes), second.max_ms) == (1, 1, 0)
    found = read_intervals(messages, ["A"], 1000)
    assert [(x.topic, x.begin_ms - BEGIN_MS, x.messages) for x in found] == [
        (OTHERS, 0, 1), ("A", 0, 1), ("A", 1000, 2), ("A", 2000, 2),
    ]  # fmt: skip
    assert isinstance(found[0], Interval) and found[-1].max_ms == 50
    assert read_occupied(messages, ["A"], sums) == (1000, found)
    keys = read_keys(hotkeys(spark, folder), ["A"])
    assert [key._replace(bytes=0) for key in keys] == [
        HotKey("A", "all", 5, 0, 1.0),
        HotKey("A", "k1", 3, 0, 0.6),
        HotKey("A", "k0", 2, 0, 0.4),
    ]


@pytest.mark.spark
@pytest.mark.slow
def test_a_burst_gets_intervals_of_its_own_length(spark: SparkSession, tmp_path: Path) -> None:
    log = LogBytes(1 << 16)
    for i in range(100):
        day = 0 if i < 99 else 86_400_000
        log.add(queue_offset=i, store_timestamp_ms=BEGIN_MS + 200 * i + day)
    messages = read_latencies(spark, str(write_segments(tmp_path / "log", log)), *COLUMNS)
    _, sums = read_totals(messages)
    assert interval_ms(sums) == 1_800_000
    every_ms, found = read_occupied(messages, ["T"], sums)
    assert every_ms == 1000 and len(found) == 21
