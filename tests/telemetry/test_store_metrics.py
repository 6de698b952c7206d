"""The store's metrics agree with each other once everything was dispatched."""

from typing import Any

import msgspec
import pytest

from tests.telemetry.traffic import MESSAGES_COUNT, value_of
from wakelog.dispatchers.log_cursor import CursorStatistics
from wakelog.dispatchers.plugins import PluginStatistics
from wakelog.telemetry.collector import read_series
from wakelog.telemetry.metrics import METRICS

pytestmark = pytest.mark.slow

LAG = "rocketmq_dispatch_lag_bytes"


def test_what_was_appended_was_dispatched(statistics: dict[str, Any]) -> None:
    put_count = value_of(statistics, "rocketmq_store_put_messages")
    put_bytes = value_of(statistics, "rocketmq_store_put_bytes")
    assert value_of(statistics, "rocketmq_dispatched_messages") == put_count > MESSAGES_COUNT
    assert value_of(statistics, "rocketmq_dispatched_bytes") == put_bytes
    assert value_of(statistics, "rocketmq_dispatch_arrivals") <= put_count
    assert value_of(statistics, "rocketmq_dispatch_bad_stretches") == 0
    for word in ("appended", "readable", "dispatched"):
        assert value_of(statistics, "rocketmq_watermark_offset_bytes", watermark=word) == put_bytes
    assert value_of(statistics, "rocketmq_dispatch_lag_bytes") == 0
    flushed = value_of(statistics, "rocketmq_watermark_offset_bytes", watermark="flushed")
    assert value_of(statistics, "rocketmq_flush_lag_bytes") == put_bytes - flushed


def test_queues_and_keys_are_counted(statistics: dict[str, Any]) -> None:
    assert value_of(statistics, "rocketmq_consume_queues") == 2  # one delay level's is the second
    assert value_of(statistics, "rocketmq_index_files") == 1
    assert value_of(statistics, "rocketmq_index_keys") >= MESSAGES_COUNT


def test_what_was_sent_is_made_durable_in_time(statistics: dict[str, Any]) -> None:
    [spec] = [spec for spec in METRICS if spec.name == "rocketmq_flush_duration_seconds"]
    [histogram] = read_series(spec, statistics).values()
    assert sum(histogram["counts"]) == value_of(statistics, "rocketmq_flushes")
    assert value_of(statistics, "rocketmq_flushes_inline") == 0


def test_a_dispatcher_from_elsewhere_has_a_lag_of_its_own() -> None:
    cursor = CursorStatistics(0, 0, 0, 0, 0, 0, 0, 0, 0, bad_stretches=())
    plugin = PluginStatistics(
        name="mine",
        position=7,
        lag_bytes=93,
        batches_count=5,
        failures_count=3,
        attempts_count=0,
        given_up=False,
        last_error="",
        cursor=cursor,
        dispatcher={"files": 4},
    )
    running = {"mine": {**msgspec.to_builtins(plugin._asdict()), "left_behind": True}}
    reput = {"plugins": {"running": running, "failures": {}}}
    words = {"readable": 100, "dispatched": 98}
    values = {"brokers": {"a": {"watermarks": words, "services": {"reput": reput}}}}
    lags = {name: value_of(values, LAG, dispatcher=name) for name in ("builtin", "mine")}
    assert lags == {"builtin": 2, "mine": 93}
    assert value_of(values, "rocketmq_plugin_batches", dispatcher="mine") == 5
    assert value_of(values, "rocketmq_plugin_failures", dispatcher="mine") == 3
    assert value_of(values, "rocketmq_plugin_given_up", dispatcher="mine") == 0
    assert value_of(values, "rocketmq_plugin_left_behind", dispatcher="mine") == 1
    assert value_of(values, "rocketmq_plugin_value", dispatcher="mine", value="files") == 4


def test_segments_are_made_ahead(statistics: dict[str, Any]) -> None:
    assert value_of(statistics, "rocketmq_segments_taken") == 1
    assert value_of(statistics, "rocketmq_segments_made") >= 1
    assert value_of(statistics, "rocketmq_segment_failures") == 0


def test_the_disk_is_measured(statistics: dict[str, Any]) -> None:
    assert 0 <= value_of(statistics, "rocketmq_disk_used_ratio", path="commitlog") <= 1
    assert value_of(statistics, "rocketmq_disk_full") == 0
