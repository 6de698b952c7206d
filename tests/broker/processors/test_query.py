"""Codes 12 and 33 (facts 8 and 22)."""

from collections.abc import Callable

import pytest

from tests.broker.harness import NOW_MS, Harness, Waiting, begun
from wakelog.broker.effects import InPool
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.storage.read.query import QueryResult

FIELDS = {"topic": "T", "key": "k", "maxNum": "64", "beginTimestamp": "1", "endTimestamp": "9"}
NEWEST = {"indexLastUpdateTimestamp": "5", "indexLastUpdatePhyoffset": "6"}


def test_records_are_answered_in_a_row(harness: Harness) -> None:
    harness.store.query_result = QueryResult((b"one", b"two"), (0, 3), 5, 6)
    response = harness.ask(RequestCode.QUERY_MESSAGE, FIELDS)
    assert (response.code, response.body) == (ResponseCode.SUCCESS, b"onetwo")
    assert response.ext_fields == NEWEST
    assert harness.store.queries == [("T", "k", 64, 1, 9)]


def test_nothing_found_says_how_far_the_index_is(harness: Harness) -> None:
    harness.store.query_result = QueryResult((), (), 5, 6)
    response = harness.ask(RequestCode.QUERY_MESSAGE, FIELDS)
    assert response.code == ResponseCode.QUERY_NOT_FOUND
    assert response.remark == "can not find message, maybe time range not correct"
    assert response.ext_fields == NEWEST


@pytest.mark.parametrize(
    ("changes", "count_max"),
    [
        ({"_UNIQUE_KEY_QUERY": "true"}, 20),
        ({"_UNIQUE_KEY_QUERY": "false"}, 64),
        ({"maxNum": "-1"}, 0),
    ],
)
def test_a_unique_key_is_queried_with_the_limit_of_the_broker(
    make_harness: Callable[..., Harness], changes: dict[str, str], count_max: int
) -> None:
    harness = make_harness(defaultQueryMaxNum="20")
    harness.ask(RequestCode.QUERY_MESSAGE, FIELDS | changes)
    assert harness.store.queries == [("T", "k", count_max, 1, 9)]


def test_a_message_is_viewed_by_its_physical_offset(harness: Harness) -> None:
    harness.send("T", b"one")
    harness.send("T", b"two")
    record = harness.store.queues_by_name["T", 0].messages[1]
    fields = {"offset": str(record.physical_offset)}
    response = harness.ask(RequestCode.VIEW_MESSAGE_BY_ID, fields)
    assert (response.code, response.body) == (ResponseCode.SUCCESS, record.record)


def test_an_offset_without_a_message_is_an_error(harness: Harness) -> None:
    response = harness.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "4711"})
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == "can not find message by the offset, 4711"


@pytest.mark.parametrize(
    ("code", "fields"),
    [(RequestCode.QUERY_MESSAGE, FIELDS), (RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "0"})],
)
def test_what_may_be_cold_is_read_in_the_pool(
    harness: Harness, code: int, fields: dict[str, str]
) -> None:
    request = harness.request(code, fields)
    outcome = begun(harness.broker.process(request, harness.channel, NOW_MS))
    assert isinstance(outcome, Waiting) and isinstance(outcome.effect, InPool)
    assert harness.store.queries == []
