"""Filters that narrow a scan, and those that must not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import datasource as spark

from wakelog.protocol.java import LONG_MAX
from wakelog.spark.bounds import Bounds, Selection
from wakelog.spark.pushdown import push

MOMENT = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(microseconds=1500)
MOMENT_MS = 1_793_491_200_001

CASES: list[tuple[spark.Filter, dict[str, Any]]] = [
    (spark.EqualTo(("topic",), "A"), {"topic_names": {"A"}}),
    (spark.In(("brokerName",), ("a", "b")), {"broker_names": {"a", "b"}}),
    (spark.EqualNullSafe(("queueId",), 3), {"queue_ids": {3}}),
    (spark.EqualTo(("queueOffset",), 7), {"everywhere": Bounds(queue_begin=7, queue_end=8)}),
    (spark.GreaterThan(("queueOffset",), 7), {"everywhere": Bounds(queue_begin=7)}),
    (spark.LessThanOrEqual(("queueOffset",), 7), {"everywhere": Bounds(queue_end=8)}),
    (spark.LessThanOrEqual(("queueOffset",), LONG_MAX), {}),
    (spark.GreaterThanOrEqual(("storeTimestamp",), MOMENT), {"store_ms": (MOMENT_MS, LONG_MAX)}),
    (spark.LessThan(("storeTimestamp",), MOMENT), {"store_ms": (-LONG_MAX, MOMENT_MS + 1)}),
    (spark.Not(spark.EqualTo(("topic",), "A")), {}),
    (spark.EqualTo(("tags",), "A"), {}),
    (spark.EqualTo(("properties", "a"), "A"), {}),
    (spark.StringStartsWith(("topic",), "A"), {}),
    (spark.IsNotNull(("topic",)), {}),
    (spark.GreaterThan(("topic",), "A"), {}),
]


@pytest.mark.parametrize(("pushed", "expected"), CASES)
def test_a_filter(pushed: spark.Filter, expected: dict[str, Any]) -> None:
    assert push(Selection(), [pushed]) == Selection()._replace(**expected)


def test_filters_hold_together() -> None:
    found = push(
        Selection(),
        [
            spark.In(("topic",), ("A", "B")),
            spark.In(("topic",), ("B", "C")),
            spark.GreaterThanOrEqual(("queueOffset",), 3),
            spark.LessThan(("queueOffset",), 9),
        ],
    )
    assert found.topic_names == frozenset({"B"})
    assert found.everywhere == Bounds(queue_begin=3, queue_end=10)
    assert found.bounds("b", "A", 0) is None
    assert found.bounds("b", "B", 0) == Bounds(queue_begin=3, queue_end=10)


def test_the_names_of_kafka() -> None:
    found = push(Selection(), [spark.EqualTo(("partition",), 2)], kafka=True)
    assert found.queue_ids == frozenset({2})
    assert push(Selection(), [spark.EqualTo(("queueId",), 2)], kafka=True) == Selection()
