"""What garbage collections look at after a task."""

from __future__ import annotations

import gc

import pytest
from pyspark.sql import SparkSession

from wakelog.spark.worker_memory import freeze_after


def test_batches_come_as_they_are_and_other_processes_stay_as_they_are() -> None:
    before = gc.get_freeze_count()
    assert list(freeze_after(iter([1, 2]))) == [1, 2]
    assert gc.get_freeze_count() == before


def frozen_count(number: int) -> int:
    assert list(freeze_after(iter([number]))) == [number]
    return gc.get_freeze_count()


@pytest.mark.spark
@pytest.mark.slow
def test_a_worker_does_not_look_again_at_what_it_has_imported(spark: SparkSession) -> None:
    first, *later = spark.sparkContext.parallelize(range(4), 1).map(frozen_count).collect()
    assert first > 1000
    assert max(later) <= first  # once: nothing is added, some of it goes
