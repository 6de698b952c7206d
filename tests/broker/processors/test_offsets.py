"""Tests of codes 14, 15, 29 to 32, 43, 45, 314 and 321 (facts 28, 38 and 39)."""

import json
from collections.abc import Callable

import pytest

from tests.broker.harness import NOW_MS, Harness, Waiting, begun, subscription
from wakelog.broker import state as broker_state
from wakelog.broker.decision import AwaitFlush, WriteLine
from wakelog.broker.effects import InPool
from wakelog.broker.table_limits import TableLimits
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
def test_the_ends_of_a_cold_queue_are_read_in_the_pool(filled: Harness, code: int) -> None:
    filled.store.cold = True
    outcome = begun(filled.broker.process(filled.request(code, QUEUE), filled.channel, NOW_MS))
    assert isinstance(outcome, Waiting) and isinstance(outcome.effect, InPool)
    response = filled.settle(outcome)
    assert isinstance(response, RemotingCommand)
    filled.store.cold = False
    assert response.ext_fields == filled.ask(code, QUEUE).ext_fields


@pytest.mark.parametrize("code", [29, 30, 31, 32, 321])
def test_a_name_that_is_no_topic_is_refused(filled: Harness, code: int) -> None:
    fields = {"topic": "../T", "queueId": "0", "timestamp": "0"}
    assert filled.ask(code, fields).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("code", [29, 30, 31, 32])
def test_a_brokers_name_with_a_dot_has_offsets(code: int) -> None:
    fields = {"topic": "host.example", "queueId": "0", "timestamp": "0"}
    assert Harness(brokerName="host.example").ask(code, fields).code == ResponseCode.SUCCESS
    assert Harness().ask(code, fields).code == ResponseCode.SYSTEM_ERROR


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
def test_no_more_entries_than_asked_for(filled: Harness, count: str, shown: int) -> None:
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


def commit(harness: Harness, **changes: str) -> RemotingCommand:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "7"}
    return harness.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields | changes)


def query(harness: Harness, **changes: str) -> RemotingCommand:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
    return harness.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields | changes)


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
    assert harness.broker.statistics()["offsets"]["queue_count"] == 0


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


def test_the_queue_of_a_group_without_an_offset_is_read_in_the_pool(harness: Harness) -> None:
    harness.send("T")
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
    request = harness.request(RequestCode.QUERY_CONSUMER_OFFSET, fields)
    outcome = begun(harness.broker.process(request, harness.channel, harness.now_ms))
    assert isinstance(outcome, Waiting) and isinstance(outcome.effect, InPool)
    response = harness.settle(outcome)
    assert isinstance(response, RemotingCommand) and response.ext_fields == {"offset": "0"}


def test_a_pull_goes_on_without_its_commit_at_the_limit(
    make_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_state, "DEFAULT_LIMITS", TableLimits(committed_offsets=0))
    harness = make_harness()
    harness.send("T")
    harness.instructions()
    pulled = harness.pulled(sysFlag=0x5)
    assert pulled.code == ResponseCode.SUCCESS
    assert any(isinstance(i, WriteLine) for i in harness.instructions())


def test_a_slave_gets_all_offsets(harness: Harness) -> None:
    assert harness.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body == b'{"offsetTable":{}}'
    offsets = harness.broker.state.offsets
    offsets.commit("g", "T", 1, 7)
    response = harness.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert (response.code, response.body) == (0, b'{"offsetTable":{"T@g":{1:7}}}')
    assert offsets.dirty  # only the file's writer may clear it


def test_a_slave_gets_all_offsets_of_light_queues() -> None:
    harness = Harness(enableLmq="true", enableMultiDispatch="true")
    harness.broker.state.offsets.commit("%LMQ%g", "%LMQ%T", 0, 7)
    response = harness.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert response.body == b'{"lmqOffsetTable":{"%LMQ%T@%LMQ%g":7},"offsetTable":{}}'


def test_a_slave_gets_the_offsets_of_the_delay_levels(harness: Harness) -> None:
    assert harness.ask(RequestCode.GET_ALL_DELAY_OFFSET).body == b'{"offsetTable":{}}'
    harness.send("T", i="DELAY\x012")
    harness.deliver_delayed(level=2)
    assert harness.ask(RequestCode.GET_ALL_DELAY_OFFSET).body == b'{"offsetTable":{2:1}}'
    assert harness.broker.state.delayed.dirty


@pytest.mark.parametrize(
    "code", [RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_ALL_DELAY_OFFSET]
)
def test_positions_wait_until_replicas_have_what_they_count(harness: Harness, code: int) -> None:
    harness.broker.state.awaits_confirmed = True
    harness.send("T", i="DELAY\x012")
    harness.deliver_delayed(level=2)
    waiting = harness.settle(harness.process(code))
    assert isinstance(waiting, AwaitFlush) and not waiting.waits_for_disk
    assert waiting.physical_offset_end == harness.broker.state.store.max_physical_offset
    assert waiting.replica_deadline_ms == harness.now_ms + 3_000
    assert waiting.replica_timed_out().code == ResponseCode.FLUSH_SLAVE_TIMEOUT


def cloned(harness: Harness, **fields: str) -> dict[str, int]:
    """Clone what group g has committed in T and U, and return what h then has."""
    state = harness.broker.state
    for number, topic in enumerate("TUV"):  # V does not exist
        if topic != "V":
            harness.send(topic)
        state.offsets.commit("g", topic, 0, 10 + number)
    response = harness.ask(
        RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "h", **fields}
    )
    assert (response.code, response.remark) == (ResponseCode.SUCCESS, None)
    harness.validate()
    found = {topic: state.offsets.query("h", topic, 0) for topic in "TUV"}
    return {topic: offset for topic, offset in found.items() if offset >= 0}


def test_a_group_gets_the_offsets_of_another(harness: Harness) -> None:
    assert cloned(harness, topic="T") == {"T": 10}
    assert cloned(harness, topic="V") == {"T": 10}


@pytest.mark.parametrize("fields", [{}, {"topic": " "}])
def test_without_a_topic_all_offsets_are_cloned(harness: Harness, fields: dict[str, str]) -> None:
    """4.9.3 clones none."""
    assert cloned(harness, **fields) == {"T": 10, "U": 11}


def test_of_a_group_that_is_online_only_what_it_subscribes_to_is_cloned(harness: Harness) -> None:
    harness.beat("g", subscription("U"))
    assert cloned(harness) == {"U": 11}
    assert cloned(harness, offline="true") == {"T": 10, "U": 11}


def test_the_clone_is_the_whole_table(harness: Harness) -> None:
    offsets = harness.broker.state.offsets
    offsets.commit("h", "T", 3, 99)
    cloned(harness, topic="T")
    assert offsets.query("h", "T", 3) == -1
    offsets.commit("h", "T", 0, 1)
    assert offsets.query("g", "T", 0) == 10


def test_a_clone_above_the_limit_is_refused(
    make_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_state, "DEFAULT_LIMITS", TableLimits(committed_offsets=4))
    harness = make_harness()
    cloned(harness, topic="T")  # g has three queues, h has one
    fields = {"srcGroup": "g", "destGroup": "i", "topic": "T"}
    assert harness.ask(RequestCode.CLONE_GROUP_OFFSET, fields).code == ResponseCode.SYSTEM_ERROR
    assert cloned(harness, topic="T") == {"T": 10}


def test_a_group_that_no_key_can_have_gets_no_clone(harness: Harness) -> None:
    fields = {"srcGroup": "g", "destGroup": "a@b"}
    assert harness.ask(RequestCode.CLONE_GROUP_OFFSET, fields).code == ResponseCode.SYSTEM_ERROR
