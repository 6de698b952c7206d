"""Lag, latency, hot keys and dead letters of known logs."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.test_spark import run
from tests.fakes.records import STORE_MS, LogBytes, properties
from tests.spark.logs import write_segments
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.traffic import deadletters, hotkeys, lag, latency

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HOUR_MS = 3_600_000
BEGIN_MS = STORE_MS - STORE_MS % HOUR_MS


def at(hour: int) -> datetime:
    return datetime.fromtimestamp((BEGIN_MS + hour * HOUR_MS) / 1000, UTC).replace(tzinfo=None)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store of 12 messages, 2 an hour, the last two of each queue not consumed by group G."""
    log = LogBytes(8192)
    for i in range(12):
        log.add(
            properties(KEYS=f"all k{i % 3}"),
            queue_id=i % 2,
            queue_offset=i // 2,
            store_timestamp_ms=BEGIN_MS + i // 2 * HOUR_MS + i,
            born_timestamp_ms=BEGIN_MS + i // 2 * HOUR_MS - 10 * i,
        )
    for i, times in enumerate((16, 16, 3)):
        log.add(
            properties(RETRY_TOPIC="T"),
            topic="%DLQ%G",
            queue_offset=i,
            reconsume_times=times,
            store_timestamp_ms=BEGIN_MS + i,
        )
    write_segments(tmp_path / "store" / "commitlog", log)
    config = tmp_path / "store" / "config"
    config.mkdir()
    table = {"T@G": {"0": 4, "1": 4}, "T@H": {"0": 6, "1": 6}}
    (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    return str(tmp_path / "store")


def test_lag_is_counted_by_the_time_of_storing(spark: SparkSession, store: str) -> None:
    rows = lag(spark, store).collect()
    assert [(row.group, row.topic, row.time, row.messages) for row in rows] == [
        ("G", "T", at(4), 2),
        ("G", "T", at(5), 2),
        ("H", "T", None, 0),  # not behind, and not left out
    ]
    assert rows[0].oldest.microsecond == 8000 and rows[0].bytes > 200
    assert [tuple(row) for row in lag(spark, store, group="H").collect()] == [
        ("H", "T", None, 0, 0, None)
    ]
    with pytest.raises(JobFailed, match=r"no group 'g' has committed .*, did you mean 'G'"):
        lag(spark, store, group="g")
    with pytest.raises(JobFailed, match="'often' is no interval; give one such as '10 minutes'"):
        lag(spark, store, every="often")


def test_latency_is_from_producer_to_log(spark: SparkSession, store: str) -> None:
    rows = [row for row in latency(spark, store).collect() if row.topic == "T"]
    assert [(row.time, row.messages) for row in rows] == [(at(hour), 2) for hour in range(6)]
    assert [(row.p50Ms, row.p99Ms, row.maxMs) for row in rows][:2] == [(0, 11, 11), (22, 33, 33)]
    of_group = latency(spark, store, group="G", options={"subExpression": "*"}).collect()
    assert of_group == rows  # without the dead letters, which it does not consume
    with pytest.raises(JobFailed, match="no group 'GG' has committed"):
        latency(spark, store, group="GG")


def test_an_intended_delay_is_no_latency(spark: SparkSession, tmp_path: Path) -> None:
    log = LogBytes(8192)
    for i, (topic, text) in enumerate(
        [("T", properties()), ("T", properties(DELAY="3")), ("%RETRY%G", properties(DELAY="3"))]
    ):
        log.add(
            text,
            topic=topic,
            queue_offset=i,
            store_timestamp_ms=BEGIN_MS + 10_000,
            born_timestamp_ms=BEGIN_MS + (9_990 if i == 0 else 0),
        )
    folder = str(write_segments(tmp_path / "log", log))
    rows = latency(spark, folder).collect()
    assert [(row.topic, row.messages, row.maxMs) for row in rows] == [
        ("%RETRY%G", 1, 10_000),
        ("T", 2, 10),
    ]


def test_the_most_frequent_keys_come_first(spark: SparkSession, store: str) -> None:
    rows = hotkeys(spark, store).collect()
    assert [(row.key, row.messages, round(row.share, 3)) for row in rows] == [
        ("all", 12, 1.0),
        ("k0", 4, 0.333),
        ("k1", 4, 0.333),
        ("k2", 4, 0.333),
    ]


def test_dead_letters_have_a_reason(spark: SparkSession, store: str) -> None:
    rows = deadletters(spark, store).collect()
    assert [(row.group, row.origin, row.reason, row.messages, row.retries) for row in rows] == [
        ("G", "T", "given up by its consumer", 1, 3),
        ("G", "T", "retries used up", 2, 16),
    ]
    [row] = deadletters(spark, store, retries_max=3).collect()
    assert row.messages == 3
    assert deadletters(spark, store, group="G.*").collect() == []


def test_the_commands_print_the_tables(
    spark: SparkSession, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("hotkeys", "--store", store, "--limit", "1") == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[1].split()[:3] == ["T", "all", "12"]
    assert said.err == "only the first 1 rows: --limit shows more\n"
    late = ["--option", f"startingTimestamp={BEGIN_MS + 5 * HOUR_MS}"]
    assert run("lag", "--store", store, "--every", "1 day", *late, "--group", "G", "-ojson") == 0
    said = capsys.readouterr()
    assert (json.loads(said.out)["messages"], said.err) == (2, "")
    assert run("deadletters", "--store", store, "--retries", "3", "--group", "G") == 0
    assert "retries used up" in capsys.readouterr().out
    # Pyspark itself writes a page of JSON for a mistake.
    assert run("latency", "--store", store, "--every", "often") == 1
    assert capsys.readouterr().err == (
        "wakelog: 'often' is no interval. Give one such as '10 minutes'.\n"
    )


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "lie",
    [
        -(1 << 63),
        pytest.param(-1, marks=LONG),
        pytest.param((1 << 63) - 1, marks=LONG),
        pytest.param(253_402_300_800_000, marks=LONG),
    ],
)
def test_a_time_that_cannot_be_true_takes_nothing_with_it(
    spark: SparkSession, tmp_path: Path, lie: int, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogBytes(8192)
    for offset, time_ms in enumerate((STORE_MS, lie)):
        log.add(queue_offset=offset, store_timestamp_ms=time_ms, born_timestamp_ms=time_ms)
    store = tmp_path / "store"
    write_segments(store / "commitlog", log)
    (store / "config").mkdir()
    table = {"offsetTable": {"T@G": {"0": 0}}}
    (store / "config" / "consumerOffset.json").write_text(json.dumps(table))
    for name in ("lag", "latency"):
        assert run(name, "--store", str(store), "-o", "json") == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert sum(row["messages"] for row in rows) == 2
    assert run("report", "--store", str(store), "--into", str(tmp_path / "page.html")) == 0
    assert "drawn: 2 messages of 1 topics" in capsys.readouterr().out
