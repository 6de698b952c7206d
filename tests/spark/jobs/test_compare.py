"""Two logs that differ in each way, and two that only lie elsewhere."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.test_spark import run
from tests.fakes.records import STORE_MS, LogBytes, properties
from tests.spark.logs import write_segments


def log_of(bodies: dict[int, bytes], **values: int) -> LogBytes:
    log = LogBytes(8192)
    for place, body in bodies.items():
        log.add(properties(UNIQ_KEY=f"u{place}"), queue_offset=place, body=body, **values)
    return log


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_lists_differences_by_queue(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = {1: b"same", 2: b"same", 3: b"left"}
    first = write_segments(tmp_path / "first", log_of({0: b"gone"} | both))
    second = write_segments(tmp_path / "second", log_of(both | {3: b"right", 4: b"new"}))
    mirror = log_of({0: b"gone"} | both, store_timestamp_ms=STORE_MS + 5)
    third = write_segments(tmp_path / "third", mirror)
    assert run("compare", "--store", str(first), "--with", str(second)) == 1
    assert capsys.readouterr().out.splitlines() == [
        "topic  queueId  difference          messages  firstQueueOffset",
        "T            0  differs                    1                 3",
        "T            0  only in the first          1                 0",
        "T            0  only in the second         1                 4",
    ]
    assert run("compare", "--store", str(first), "--with", str(third)) == 0
    assert capsys.readouterr().out == "equal\n"
