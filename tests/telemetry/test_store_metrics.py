"""The store's metrics agree with each other once everything was dispatched."""

from typing import Any

import pytest

from tests.telemetry.traffic import MESSAGES_COUNT, value_of

pytestmark = pytest.mark.slow


def test_what_was_appended_was_dispatched(statistics: dict[str, Any]) -> None:
    put_count = value_of(statistics, "rocketmq_store_put_messages")
    put_bytes = value_of(statistics, "rocketmq_store_put_bytes")
    assert value_of(statistics, "rocketmq_dispatched_messages") == put_count > MESSAGES_COUNT
    assert value_of(statistics, "rocketmq_dispatched_bytes") == put_bytes
    assert value_of(statistics, "rocketmq_dispatch_arrivals") <= put_count
    assert value_of(statistics, "rocketmq_dispatch_bad_stretches") == 0
    for word in ("appended", "readable", "dispatched"):
        assert value_of(statistics, "rocketmq_watermark_offset_bytes", word=word) == put_bytes
    assert value_of(statistics, "rocketmq_dispatch_lag_bytes") == 0
    flushed = value_of(statistics, "rocketmq_watermark_offset_bytes", word="flushed")
    assert value_of(statistics, "rocketmq_flush_lag_bytes") == put_bytes - flushed


def test_queues_and_keys_are_counted(statistics: dict[str, Any]) -> None:
    assert value_of(statistics, "rocketmq_consume_queues") == 2  # one delay level's is the second
    assert value_of(statistics, "rocketmq_index_files") == 1
    assert value_of(statistics, "rocketmq_index_keys") >= MESSAGES_COUNT


def test_segments_are_made_ahead(statistics: dict[str, Any]) -> None:
    assert value_of(statistics, "rocketmq_segments_taken") == 1
    assert value_of(statistics, "rocketmq_segments_made") >= 1
    assert value_of(statistics, "rocketmq_segment_failures") == 0


def test_the_disk_is_looked_at(statistics: dict[str, Any]) -> None:
    assert 0 <= value_of(statistics, "rocketmq_disk_used_ratio", path="commitlog") <= 1
    assert value_of(statistics, "rocketmq_disk_full") == 0
