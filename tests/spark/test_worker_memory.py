"""Objects that garbage collections skip after a task."""

import gc
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from tests.fakes.records import LogBytes
from tests.spark.logs import write_segments
from wakelog.spark import worker_memory
from wakelog.spark.source import RocketMQSource
from wakelog.spark.worker_memory import REUSED, freeze_after


def test_batches_come_as_they_are_and_other_processes_stay_as_they_are() -> None:
    before = gc.get_freeze_count()
    assert list(freeze_after(iter([1, 2]))) == [1, 2]
    assert gc.get_freeze_count() == before


def frozen_count(number: int) -> int:
    assert list(freeze_after(iter([number]))) == [number]
    return gc.get_freeze_count()


@pytest.mark.spark
@pytest.mark.slow
def test_a_worker_does_not_collect_imported_modules_again(spark: SparkSession) -> None:
    first, *later = spark.sparkContext.parallelize(range(4), 1).map(frozen_count).collect()
    assert first > 1000
    assert max(later) <= first  # once: nothing is added, some of it goes


def test_a_planner_does_it_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = LogBytes(segment_bytes=1 << 14)
    log.add()
    options = {"path": str(write_segments(tmp_path, log))}
    reader = RocketMQSource(options).reader(StructType([StructField("flag", IntegerType())]))
    monkeypatch.setattr(worker_memory, "_is_frozen", False)
    before = gc.get_freeze_count()  # Python 3.12 has some from its start
    assert len(reader.partitions()) == 1 and gc.get_freeze_count() == before
    monkeypatch.setenv(REUSED, "1")
    assert len(reader.partitions()) == 1 and gc.get_freeze_count() > before + 1000
