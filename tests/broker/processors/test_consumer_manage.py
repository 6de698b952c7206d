"""Codes 38, 14 and 15 (facts 38 and 39)."""

import json

import pytest

from tests.broker.harness import FakeChannel, Harness, subscription
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand


def commit(harness: Harness, **changes: str) -> RemotingCommand:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "7"}
    return harness.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields | changes)


def query(harness: Harness, **changes: str) -> RemotingCommand:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
    return harness.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields | changes)


def test_the_clients_of_a_group_are_listed(harness: Harness) -> None:
    harness.beat("g", subscription())
    harness.beat("g", subscription(), channel=FakeChannel(2), client_id="c2")
    response = harness.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    assert response.code == ResponseCode.SUCCESS
    assert json.loads(response.body) == {"consumerIdList": ["c1", "c2"]}


def test_a_group_without_clients_is_an_error(harness: Harness) -> None:
    response = harness.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == "no consumer for this group, g"


def test_a_committed_offset_is_answered(harness: Harness) -> None:
    assert commit(harness).code == ResponseCode.SUCCESS
    assert query(harness).ext_fields == {"offset": "7"}
    assert commit(harness, commitOffset="3").code == ResponseCode.SUCCESS
    assert query(harness).ext_fields == {"offset": "3"}


@pytest.mark.parametrize(
    "changes", [{"topic": "../T"}, {"consumerGroup": "a/b"}, {"queueId": "-1"}, {"queueId": "x"}]
)
def test_an_offset_of_nothing_is_refused(harness: Harness, changes: dict[str, str]) -> None:
    assert commit(harness, **changes).code == ResponseCode.SYSTEM_ERROR
    assert harness.broker.statistics().offsets.queue_count == 0


# Fact 39: a group without an offset: does the queue begin at 0, is its begin near: code.
NEW_GROUPS = [
    (0, False, ResponseCode.SUCCESS),
    (0, True, ResponseCode.QUERY_NOT_FOUND),
    (2, False, ResponseCode.QUERY_NOT_FOUND),
]


@pytest.mark.parametrize(("begin", "far_behind", "code"), NEW_GROUPS)
def test_a_new_group_starts_at_0_only_in_a_whole_and_near_queue(
    harness: Harness, begin: int, far_behind: bool, code: int
) -> None:
    for _ in range(3):
        harness.send("T")
    harness.store.queues_by_name["T", 0].begin = begin
    harness.store.far_behind = far_behind
    response = query(harness)
    assert response.code == code
    if code == ResponseCode.SUCCESS:
        assert response.ext_fields == {"offset": "0"}
    else:
        assert response.remark == "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


def test_the_go_clients_minus_one_is_no_offset(harness: Harness) -> None:
    """Section 12."""
    commit(harness, commitOffset="-1")
    assert query(harness).ext_fields == {"offset": "0"}
