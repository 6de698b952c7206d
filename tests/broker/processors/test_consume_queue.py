"""Tests of code 321: how entries of consume queues are shown."""

import json
from typing import cast

import pytest

from tests.broker.fake_store import FakeStore
from tests.broker.harness import Harness, Waiting, begun, sql_subscription, subscription
from tests.calls import calls_of_steps
from wakelog.broker.effects import InPool
from wakelog.broker.processors import consume_queue
from wakelog.broker.processors.consume_queue import (
    ENTRIES_PER_STEP,
    bitmap_text,
    encode_in_steps,
    read_entries,
)
from wakelog.protocol.bodies import (
    ConsumeQueueData,
    QueryConsumeQueueResponseBody,
    decode_body,
    encode_body,
)
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.headers.admin import QueryConsumeQueueRequestHeader
from wakelog.storage.log.append import MessageDraft
from wakelog.storage.message_store import MessageStore
from wakelog.storage.queue.consume_queue_ext import ExtensionUnit

ADDRESS = -(1 << 63) + 20


@pytest.fixture
def store() -> FakeStore:
    store = FakeStore()
    fill(store)
    return store


def fill(store: FakeStore) -> None:
    """Put three entries into a queue; the second has an extension unit."""
    store.tags_code = int
    for code in (65, ADDRESS, 66):
        store.put_message(MessageDraft("T", 0, b"b", str(code)), 0)


def read(store: FakeStore, *, begin: int = 0, count: int = 10) -> list[ConsumeQueueData]:
    header = QueryConsumeQueueRequestHeader(topic="T", queue_id=0, index=begin, count=count)
    return read_entries(cast(MessageStore, store), header, None)


def ask(harness: Harness, unit: ExtensionUnit) -> QueryConsumeQueueResponseBody:
    """Ask for the entry with a unit, as the group g sees it."""
    fill(harness.store)
    harness.store.extension_units[ADDRESS] = unit
    fields = {"topic": "T", "queueId": "0", "index": "1", "count": "1", "consumerGroup": "g"}
    response = harness.ask(RequestCode.QUERY_CONSUME_QUEUE, fields)
    assert response.code == ResponseCode.SUCCESS, response.remark
    return decode_body(QueryConsumeQueueResponseBody, response.body)


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
def test_an_entry_shows_whether_its_tag_lets_it_pass(
    harness: Harness, expression: str, verdict: bool
) -> None:
    harness.beat("g", subscription("T", expression))
    found = ask(harness, ExtensionUnit(20, 65, 1_000, b""))
    assert found.queue_data is not None and found.queue_data[0].eval is verdict
    assert found.filter_data == "null"


@pytest.mark.parametrize(
    ("after_ms", "bitmap", "verdict"),
    [(1, bytes(14), False), (1, b"\xff" * 14, True), (0, bytes(14), True), (1, b"", True)],
    ids=["without its bits", "with its bits", "older than the filter", "no bitmap"],
)
def test_an_entry_shows_whether_its_bits_let_it_pass(
    after_ms: int, bitmap: bytes, verdict: bool
) -> None:
    harness = Harness(enablePropertyFilter="true")
    harness.beat("g", sql_subscription("a > 1"))
    found = ask(harness, ExtensionUnit(34, 65, harness.now_ms + after_ms, bitmap))
    assert found.queue_data is not None and found.queue_data[0].eval is verdict
    shown = json.loads(found.filter_data or "")
    kept = harness.broker.state.filters.get("T", "g")
    assert kept is not None
    assert shown.pop("bloomFilterData") == {"bitNum": 112, "bitPos": list(kept.positions.bits)}
    assert shown == {
        "bornTime": harness.now_ms,
        "clientVersion": 1,
        "consumerGroup": "g",
        "dead": False,
        "deadTime": 0,
        "expression": "a > 1",
        "expressionType": "SQL92",
        "topic": "T",
    }


def test_an_address_without_a_unit_shows_an_error(store: FakeStore) -> None:
    (data,) = read(store, begin=1, count=1)
    assert data.msg == f"Cq extend not exist!addr: {ADDRESS}"


def test_a_bitmap_is_written_last_byte_first() -> None:
    assert bitmap_text(b"") == ""
    assert bitmap_text(b"\x03") == "00000011\n"


@pytest.mark.parametrize("count", [0, 1, 2 * ENTRIES_PER_STEP + 1])
def test_a_body_in_steps_is_the_one_in_one_piece(count: int) -> None:
    entries = [ConsumeQueueData(number, -number, 7 - number) for number in range(count)]
    odd = [
        ConsumeQueueData(1, 2, 3, '{"a":[]}', "1\n", eval=True),
        ConsumeQueueData(1, 2, 3, msg="Cq extend not exist!addr: 3"),
        ConsumeQueueData(1, 2, 3, '{"size":20}'),
    ]
    body = QueryConsumeQueueResponseBody(
        subscription("T", "A"), '"queueData":[]', [*entries, *odd], 9, 1
    )
    whole = encode_body(body)
    calls, encoded = calls_of_steps(encode_in_steps(body))
    assert encoded == whole
    assert len(calls) == -(-(count + len(odd)) // ENTRIES_PER_STEP) + 1
    assert max(calls) < 3 * ENTRIES_PER_STEP + 500


def test_entries_are_read_in_a_thread_and_written_in_steps(harness: Harness) -> None:
    fill(harness.store)
    fields = {"topic": "T", "queueId": "0", "index": "0", "count": str((1 << 31) - 1)}
    request = harness.request(RequestCode.QUERY_CONSUME_QUEUE, fields)
    outcome = begun(harness.broker.process(request, harness.channel, harness.now_ms))
    assert isinstance(outcome, Waiting) and isinstance(outcome.effect, InPool)
    pieces = 0
    outcome = outcome.resume(outcome.effect.work())
    while isinstance(outcome, Waiting):
        assert outcome.effect is None
        pieces += 1
        outcome = outcome.resume()
    assert pieces and isinstance(outcome, RemotingCommand)
    assert outcome.body == harness.ask(RequestCode.QUERY_CONSUME_QUEUE, fields).body
