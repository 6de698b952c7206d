"""Codes 29, 30, 31, 32 and 321 (fact 28)."""

import json

import pytest

from tests.broker.harness import NOW_MS, Harness, subscription
from wakelog.broker.decision import RunInPool
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand


@pytest.fixture
def filled(harness: Harness) -> Harness:
    """A broker with three messages in queue 1 of T, a second apart, the first of them gone."""
    for _ in range(3):
        harness.send("T", i="TAGS\x01A", e="1")
        harness.now_ms += 1_000
    harness.store.queues_by_name["T", 1].begin = 1
    return harness


QUEUE = {"topic": "T", "queueId": "1"}
OTHER = {"topic": "T", "queueId": "0"}
UNKNOWN = {"topic": "U", "queueId": "7"}

ROWS = [
    (RequestCode.GET_MAX_OFFSET, QUEUE, "offset", 3),
    (RequestCode.GET_MAX_OFFSET, OTHER, "offset", 0),
    (RequestCode.GET_MAX_OFFSET, UNKNOWN, "offset", 0),
    (RequestCode.GET_MIN_OFFSET, QUEUE, "offset", 1),
    (RequestCode.GET_MIN_OFFSET, UNKNOWN, "offset", 0),
    (RequestCode.GET_EARLIEST_MSG_STORETIME, QUEUE, "timestamp", NOW_MS + 1_000),
    (RequestCode.GET_EARLIEST_MSG_STORETIME, UNKNOWN, "timestamp", -1),
    (
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        {**QUEUE, "timestamp": str(NOW_MS + 900)},
        "offset",
        1,
    ),
    (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**UNKNOWN, "timestamp": "5"}, "offset", 0),
]


@pytest.mark.parametrize(("code", "fields", "name", "number"), ROWS)
def test_the_ends_of_a_queue(
    filled: Harness, code: int, fields: dict[str, str], name: str, number: int
) -> None:
    response = filled.ask(code, fields)
    assert response.code == ResponseCode.SUCCESS
    assert response.ext_fields == {name: str(number)}


@pytest.mark.parametrize("code", [RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET])
def test_the_ends_of_a_cold_queue_are_looked_up_elsewhere(filled: Harness, code: int) -> None:
    filled.store.cold = True
    outcome = filled.broker.process(filled.request(code, QUEUE), filled.channel, NOW_MS)
    assert isinstance(outcome, RunInPool)
    response = filled.settle(outcome)
    assert isinstance(response, RemotingCommand)
    filled.store.cold = False
    assert response.ext_fields == filled.ask(code, QUEUE).ext_fields


@pytest.mark.parametrize("code", [29, 30, 31, 32, 321])
def test_a_name_that_is_no_topic_is_refused(filled: Harness, code: int) -> None:
    fields = {"topic": "../T", "queueId": "0", "timestamp": "0"}
    assert filled.ask(code, fields).code == ResponseCode.SYSTEM_ERROR


def entries(filled: Harness, **changes: str) -> tuple[int, str | None, dict[str, object] | None]:
    fields = {**QUEUE, "index": "1", "count": "10"} | changes
    response = filled.ask(RequestCode.QUERY_CONSUME_QUEUE, fields)
    return response.code, response.remark, json.loads(response.body) if response.body else None


def test_entries_are_shown_as_they_lie(filled: Harness) -> None:
    code, _, body = entries(filled)
    stored = filled.store.queues_by_name["T", 1].messages
    assert code == ResponseCode.SUCCESS
    assert body == {
        "maxQueueIndex": 3,
        "minQueueIndex": 1,
        "queueData": [
            {
                "eval": False,
                "physicOffset": m.physical_offset,
                "physicSize": len(m.record),
                "tagsCode": 65,
            }
            for m in stored[1:]
        ],
    }


@pytest.mark.parametrize(("count", "shown"), [("1", 1), ("99999999", 2)])
def test_no_more_entries_than_prepare_read(filled: Harness, count: str, shown: int) -> None:
    _, _, body = entries(filled, count=count)
    assert body is not None
    assert len(body["queueData"]) == shown  # type: ignore[arg-type]


@pytest.mark.parametrize("index", ["3", "-1"])
def test_an_index_outside_is_a_success_without_body(filled: Harness, index: str) -> None:
    """Section 1.1: no body and SUCCESS when index is out of range."""
    assert entries(filled, index=index) == (
        ResponseCode.SUCCESS,
        f"Index {index} of 1@T is not exist!",
        None,
    )


def test_a_queue_that_is_not_there_is_an_error(filled: Harness) -> None:
    code, remark, body = entries(filled, queueId="3")
    assert (code, remark, body) == (ResponseCode.SYSTEM_ERROR, "3@T is not exist!", None)


def test_a_groups_subscription_is_shown_beside(filled: Harness) -> None:
    _, _, body = entries(filled, consumerGroup="g")
    assert body is not None
    assert body["filterData"] == "g@T is not online!"
    filled.beat("g", subscription("T", "A"))
    _, _, body = entries(filled, consumerGroup="g")
    assert body is not None
    assert body["filterData"] == "null"
    assert body["subscriptionData"]["subString"] == "A"  # type: ignore[index]
