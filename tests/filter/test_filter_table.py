"""A table of filters as it travels, and as a file of the real broker has it."""

import json
from typing import Any

import msgspec
import pytest

from tests.broker.harness import sql_subscription
from tests.filter.bits import bitmap_of
from wakelog.filter.bloom import BloomFilter
from wakelog.filter.consumer_filters import ConsumerFilters
from wakelog.filter.filter_table import decode_filters, encode_filters, stored_filters

BLOOM = BloomFilter(error_percent=20, names_count=32)


def filters(**wanted: tuple[str, str]) -> ConsumerFilters:
    """Return filters by group: topic and expression."""
    made = ConsumerFilters(BLOOM, 0, dead_ms_max=1)
    for group, (topic, expression) in wanted.items():
        made.register(group, [sql_subscription(expression, topic)], 5)
    return made


def bits(*names: str) -> bytes:
    return bitmap_of(map(BLOOM.positions, names))


THREE = {"a": ("T", "x > 1"), "b": ("T", "x IS NULL"), "c": ("U", "x > 1")}


@pytest.mark.parametrize(
    ("topic", "properties", "bitmap"),
    [
        ("T", {"x": "2"}, bits("a#T")),
        ("T", {"x": "1"}, bits()),
        ("T", {}, bits("b#T")),
        ("T", {"x": "no number"}, bits()),
        ("U", {"x": "2"}, bits("c#U")),
        ("V", {"x": "2"}, b""),
    ],
)
@pytest.mark.parametrize("way", ["travelled", "stored"])
def test_the_bitmap_of_a_message(
    topic: str, properties: dict[str, str], bitmap: bytes, way: str
) -> None:
    made = filters(**THREE)
    if way == "stored":
        table = stored_filters(made.snapshot()())
    else:
        table = decode_filters(encode_filters(made.all(), BLOOM.bit_count))
    assert table is not None
    assert len(table) == 3
    assert table.bitmap(topic, properties, 1) == bitmap


def test_the_dead_are_tried_too() -> None:
    made = filters(**THREE)
    made.register("a", [], 9)
    table = decode_filters(encode_filters(made.all(), BLOOM.bit_count))
    assert table.bitmap("T", {"x": "2"}, 1) == bits("a#T")


def test_what_the_table_before_compiled_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_filters(filters(**THREE).all(), BLOOM.bit_count)
    before = decode_filters(data)
    monkeypatch.setattr("wakelog.filter.filter_table.compile_filter", None)
    assert decode_filters(data, before).bitmap("U", {"x": "2"}, 1) == bits("c#U")


@pytest.mark.parametrize(("store_timestamp_ms", "is_needed"), [(5, False), (6, True)])
def test_the_bits_that_a_message_needs_are_of_filters_before_it(
    store_timestamp_ms: int, is_needed: bool
) -> None:
    table = stored_filters(filters(**THREE).snapshot()(), needed_only=True)
    assert table is not None
    found = table.bitmap("T", {"x": "2"}, store_timestamp_ms)
    assert found == (bits("a#T") if is_needed else bits())


def stored(change: dict[str, Any]) -> str:
    content = json.loads(filters(**THREE).snapshot()())
    content["filterDataByTopic"]["T"]["groupFilterData"]["a"].update(change)
    return json.dumps(content)


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({"expression": "x >"}, 2),
        ({"expressionType": "CLASS"}, 2),
        ({"bloomFilterData": {"bitNum": 120, "bitPos": [1, 2, 3]}}, None),
        ({"bloomFilterData": {"bitNum": 112, "bitPos": [1, 2, 112]}}, None),
        ({"bloomFilterData": {"bitNum": 0, "bitPos": []}}, None),
        ({"bloomFilterData": None}, None),
    ],
)
def test_a_foreign_file(change: dict[str, Any], count: int | None) -> None:
    table = stored_filters(stored(change))
    assert (None if table is None else len(table)) == count


def test_a_file_without_filters_is_no_table() -> None:
    assert stored_filters("{}") is None
    with pytest.raises(ValueError):
        stored_filters("[")


@pytest.mark.parametrize(("bits", "bit_count"), [((8,), 8), ((-1,), 8), ((0,), 8 << 40), ((0,), 9)])
def test_bits_of_no_filter_are_no_table(bits: tuple[int, ...], bit_count: int) -> None:
    data = msgspec.msgpack.encode([bit_count, [["T", "x > 1", bits]]])
    with pytest.raises(ValueError, match="bits of no filter"):
        decode_filters(data)
    stored = filters(a=("T", "x > 1")).snapshot()()
    content = json.loads(stored)
    [data] = content["filterDataByTopic"]["T"]["groupFilterData"].values()
    data["bloomFilterData"] = {"bitNum": bit_count, "bitPos": list(bits)}
    assert stored_filters(json.dumps(content)) is None
