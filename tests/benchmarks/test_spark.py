"""The Spark benchmark: its log, the row-by-row way over it, and the page made of figures."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.sql.types import StructType

from benchmarks import spark, spark_scan
from benchmarks.cost import MARK
from benchmarks.kept import RESULTS
from benchmarks.spark_log import QUEUES_COUNT, TOPIC, write_log
from benchmarks.spark_rows import RowReader, RowSource
from tests.spark.logs import query_rows
from wakelog.spark.columns import MESSAGE_COLUMNS

MACHINE = {
    "cores": 2,
    "processor": "a processor",
    "file_system": "ext4",
    "kernel": "6.1",
    "python": "3.11.7",
    "java": "openjdk 17",
}


def test_the_log_can_be_read_and_row_by_row_it_says_the_same(tmp_path: Path) -> None:
    count = write_log(tmp_path / "commitlog", segments_count=2, segment_bytes=1 << 16)
    rows = query_rows(storePath=str(tmp_path))
    assert len(rows) == count
    assert {row["topic"] for row in rows} == {TOPIC}
    assert [row["queueOffset"] for row in rows] == [n // QUEUES_COUNT for n in range(count)]
    assert len({row["body"] for row in rows}) == count

    reader = RowSource({"path": str(tmp_path)}).reader(StructType())
    assert isinstance(reader, RowReader)
    plain = [row for part in reader.partitions() for row in reader.read(part)]
    times = {"bornTimestamp", "storeTimestamp"}
    for found, expected in zip(plain, rows, strict=True):
        named = dict(zip(MESSAGE_COLUMNS, found, strict=True))
        for name in times:
            named[name] = round(named[name].timestamp() * 1_000_000)
        named["properties"] = list(named["properties"].items())
        assert named == expected


def test_sessions_behind_each_other_count_the_same_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, "so that it is taken away with the test")
    monkeypatch.delenv(MARK)
    monkeypatch.setattr(spark_scan, "open_session", Mock())
    monkeypatch.setattr(spark_scan, "java_runtime", Mock(return_value=Mock(env={})))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with spark_scan.session(tmp_path) as (_, first):
        pass
    with spark_scan.session(tmp_path) as (_, second):
        pass
    assert first == second


def test_the_page_has_medians_and_ratios_turn_by_turn() -> None:
    def turns(*seconds: float) -> list[dict[str, float]]:
        return [{"seconds": each, "rows_per_second": 6000 / each} for each in seconds]

    found = {
        "measured": "2026-01-02",
        "machine": MACHINE,
        "scan": {
            "full": turns(4, 2, 6),
            "full, Parquet uncompressed": turns(2, 2, 2),
            "row by row": turns(60, 30, 30),
        },
    }
    page = spark.render(found)
    assert "| full | 4.00 (2.00 to 6.00) | 1,500 (1,000 to 3,000) |  |  |  |" in page
    assert "| full to full, Parquet uncompressed | 2.00 | 1.00 to 3.00 | at most 2 |" in page
    assert "| full to row by row | 15.00 | 5.00 to 15.00 | at least 20 |" in page
    assert "snappy" not in page


def test_fewer_turns_replace_no_result(tmp_path: Path) -> None:
    assert spark._read_options(["--turns", "2"]).output is None
    assert spark._read_options([]).output == RESULTS
    assert spark._read_options(["--turns", "1", "--output", str(tmp_path)]).output == tmp_path
