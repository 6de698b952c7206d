"""Filters over a record's properties, on records that the real broker wrote."""

import pytest

from tests.broker.harness import sql_subscription
from tests.fakes.records import record
from tests.filter.bits import bitmap_of
from tests.protocol.golden_records import raw_records
from wakelog.filter.bloom import BloomFilter
from wakelog.filter.consumer_filters import ConsumerFilters
from wakelog.filter.record_filter import match_bitmap, match_expression, match_origin
from wakelog.filter.sql92 import compile_filter


@pytest.mark.parametrize(
    ("properties", "passes"), [("a\x012\x02", True), ("a\x011", False), ("", False)]
)
def test_the_properties_of_the_record_decide(properties: str, passes: bool) -> None:
    assert match_expression(compile_filter("a > 1"))(record(0, properties.encode())) is passes


@pytest.mark.parametrize(
    ("store_timestamp_ms", "groups", "passes"),
    [
        (5, "", True),  # stored before the filter was known, or in the same millisecond
        (6, "", False),
        (6, "g", True),
        (6, "h", False),
        (6, "gh", True),
    ],
)
def test_a_bitmap_rules_a_message_out(store_timestamp_ms: int, groups: str, passes: bool) -> None:
    bloom = BloomFilter(error_percent=20, names_count=32)
    filters = ConsumerFilters(bloom, 1, dead_ms_max=1)
    filters.register("g", [sql_subscription("a > 1")], 5)
    kept = filters.get("T", "g")
    assert kept is not None
    bitmap = bitmap_of(bloom.positions(f"{group}#T") for group in groups)
    may_pass = match_bitmap(bloom, kept)
    assert may_pass(store_timestamp_ms, bitmap) is passes
    for of_another_length in (b"", bitmap[:-1], bitmap + b"\0"):
        assert may_pass(store_timestamp_ms, of_another_length)


def test_a_damaged_record_does_not_pass() -> None:
    sound = record(0, b"a\x012")
    by_expression, by_origin = match_expression(compile_filter("a > 1")), match_origin({})
    for damaged in (b"", sound[:40], sound[:-1], sound + b"."):
        assert not by_expression(damaged) and not by_origin(damaged)


@pytest.mark.parametrize(
    ("properties", "passes"),
    [
        ("RETRY_TOPIC\x01T\x02a\x012", True),
        ("RETRY_TOPIC\x01T\x02a\x011", False),
        ("RETRY_TOPIC\x01U\x02a\x011", True),
        ("a\x011", True),
    ],
)
def test_a_retry_is_filtered_as_the_topic_it_came_from(properties: str, passes: bool) -> None:
    filters = ConsumerFilters(BloomFilter(error_percent=20, names_count=32), 1, dead_ms_max=1)
    filters.register("g", [sql_subscription("a > 1")], 1)
    assert match_origin(filters.of_group("g"))(record(0, properties.encode())) is passes


def test_records_of_a_real_broker_are_judged_by_what_they_hold() -> None:
    tagged = match_expression(compile_filter("TAGS = 'TagA'"))
    records = raw_records("filter_ext")
    assert 0 < sum(map(tagged, records)) < len(records)
    for raw in records:
        assert tagged(raw) is (b"TAGS\x01TagA\x02" in raw + b"\x02")
