"""Tests of code 321: how entries of consume queues are shown."""

import json
from typing import cast

import pytest

from tests.broker.fake_store import FakeStore
from tests.broker.harness import subscription
from wakelog.broker.processors import consume_queue
from wakelog.broker.processors.consume_queue import bitmap_text, read_entries
from wakelog.protocol.bodies import ConsumeQueueData, SubscriptionData
from wakelog.protocol.headers.admin import QueryConsumeQueueRequestHeader
from wakelog.storage.log.append import MessageDraft
from wakelog.storage.message_store import MessageStore
from wakelog.storage.queue.consume_queue_ext import ExtensionUnit

ADDRESS = -(1 << 63) + 20


@pytest.fixture
def store() -> FakeStore:
    store = FakeStore()
    store.tags_code = int
    for code in (65, ADDRESS, 66):
        store.put_message(MessageDraft("T", 0, b"b", str(code)), 0)
    return store


def read(
    store: FakeStore, *, begin: int = 0, count: int = 10, wanted: SubscriptionData | None = None
) -> list[ConsumeQueueData]:
    header = QueryConsumeQueueRequestHeader(topic="T", queue_id=0, index=begin, count=count)
    return read_entries(cast(MessageStore, store), header, wanted)


def test_an_entry_is_three_numbers(store: FakeStore) -> None:
    size_bytes = len(store.log[0].record)
    assert read(store, count=1) == [ConsumeQueueData(0, size_bytes, 65)]


@pytest.mark.parametrize(("count", "shown"), [(2, 2), (0, 0), (-1, 0), (99, 3)])
def test_no_more_than_asked_for(store: FakeStore, count: int, shown: int) -> None:
    assert len(read(store, count=count)) == shown


def test_no_more_than_a_page(monkeypatch: pytest.MonkeyPatch, store: FakeStore) -> None:
    monkeypatch.setattr(consume_queue, "ENTRIES_MAX", 2)
    assert len(read(store, count=99)) == 2


def test_an_entry_shows_its_extension_unit(store: FakeStore) -> None:
    store.extension_units[ADDRESS] = ExtensionUnit(34, 65, 1_000, b"\x01" + bytes(7) + b"\x80")
    (data,) = read(store, begin=1, count=1)
    assert json.loads(data.extend_data_json or "") == {
        "filterBitMap": "AQAAAAAAAACA",
        "msgStoreTime": 1_000,
        "size": 34,
        "tagsCode": 65,
    }
    assert data.bit_map == "10000000\n" + "0" * 56 + "00000001\n"
    assert (data.eval, data.msg) == (False, None)


def test_a_unit_without_bitmap_shows_none(store: FakeStore) -> None:
    store.extension_units[ADDRESS] = ExtensionUnit(20, 65, 1_000, b"")
    (data,) = read(store, begin=1, count=1)
    assert "filterBitMap" not in (data.extend_data_json or "")
    assert data.bit_map is None


@pytest.mark.parametrize(("expression", "verdict"), [("A", True), ("B", False), ("*", True)])
def test_an_entry_shows_whether_the_group_would_get_it(
    store: FakeStore, expression: str, verdict: bool
) -> None:
    store.extension_units[ADDRESS] = ExtensionUnit(20, 65, 1_000, b"")
    (data,) = read(store, begin=1, count=1, wanted=subscription("T", expression))
    assert data.eval is verdict


def test_an_address_without_a_unit_shows_an_error(store: FakeStore) -> None:
    (data,) = read(store, begin=1, count=1)
    assert data.msg == f"Cq extend not exist!addr: {ADDRESS}"


def test_a_bitmap_is_written_last_byte_first() -> None:
    assert bitmap_text(b"") == ""
    assert bitmap_text(b"\x03") == "00000011\n"
