"""Codes 17, 21, 202, 215, 305, 306, 316 and 351 (facts 27 and 28)."""

from collections.abc import Callable

import pytest

from tests.broker.harness import NOW_MS, Harness, Waiting
from wakelog.broker.decision import RegisterBroker
from wakelog.broker.effects import Registered, Removed
from wakelog.broker.names import SYSTEM_TOPICS
from wakelog.protocol.bodies import (
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicOffset,
    TopicStatsTable,
    decode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.names import SCHEDULE_TOPIC
from wakelog.storage.log.append import MessageDraft

FIELDS = {
    "topic": "T",
    "defaultTopic": "TBW102",
    "readQueueNums": "8",
    "writeQueueNums": "6",
    "perm": "4",
    "topicFilterType": "MULTI_TAG",
    "topicSysFlag": "1",
    "order": "true",
}


def test_a_topic_is_defined_and_answered_when_it_is_routed(harness: Harness) -> None:
    outcome = harness.process(RequestCode.UPDATE_AND_CREATE_TOPIC, FIELDS)
    assert isinstance(outcome, Waiting) and isinstance(outcome.effect, Registered)
    assert harness.answered(outcome).code == ResponseCode.SUCCESS
    # Fact 27: order is ignored.
    assert harness.broker.state.topics.get("T") == TopicConfig("T", 8, 6, 4, "MULTI_TAG", 1)
    assert harness.saved == ["topics"]
    assert harness.instructions() == [RegisterBroker(("T",))]


def test_an_update_clears_the_order_flag(harness: Harness) -> None:
    """Fact 27."""
    harness.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, FIELDS)
    harness.broker.state.topics.update_order_topics(["T"], NOW_MS)
    harness.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, FIELDS)
    topic = harness.topic("T")
    assert not topic.order


REFUSALS = [
    ({"topic": "../T"}, "The specified topic contains illegal characters"),
    ({"topic": ""}, "The specified topic is blank."),
    ({"topic": "TBW102"}, "The topic[TBW102] is conflict with system topic."),
    ({"topic": "DefaultCluster"}, "The topic[DefaultCluster] is conflict with system topic."),
    ({"topic": "rmq_sys_x"}, "The topic[rmq_sys_x] is conflict with system topic."),
    ({"readQueueNums": "-1"}, "readQueueNums[-1] is not 0 to 65535"),
    ({"writeQueueNums": "1000000000"}, "writeQueueNums[1000000000] is not 0 to 65535"),
    ({"perm": "99"}, "perm[99] is not 0 to 15"),
    ({"topicFilterType": "X"}, "java.lang.IllegalArgumentException: No enum constant"),
    ({"perm": "x"}, "java.lang.NumberFormatException"),
]


@pytest.mark.parametrize(("changes", "remark"), REFUSALS)
def test_a_topic_that_cannot_be_is_refused(
    harness: Harness, changes: dict[str, str], remark: str
) -> None:
    response = harness.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, FIELDS | changes)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert (response.remark or "").startswith(remark)
    assert harness.instructions() == []


def test_all_topics_are_listed_with_their_version(harness: Harness) -> None:
    harness.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, FIELDS)
    response = harness.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    listed = decode_body(TopicConfigSerializeWrapper, response.body)
    assert listed.topic_config_table["T"].write_queue_nums == 6
    assert listed.topic_config_table["TBW102"].perm == 7
    assert listed.data_version == harness.broker.state.topics.data_version


def test_both_ends_of_each_queue_are_shown(harness: Harness) -> None:
    for _ in range(3):
        harness.send("T", e="1")
    harness.store.queues_by_name["T", 1].begin = 1
    response = harness.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
    table = decode_body(TopicStatsTable, response.body).offset_table
    assert table == {
        MessageQueue("T", "broker-a", queue_id): TopicOffset(1, 3, NOW_MS)
        if queue_id == 1
        else TopicOffset(0, 0, 0)
        for queue_id in range(4)
    }
    # Section 1.6: map keys that are objects are written as objects.
    assert response.body.startswith(b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,')


def test_an_unknown_topic_has_no_queues(make_harness: Callable[..., Harness]) -> None:
    response = make_harness().ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "U"})
    assert response.code == ResponseCode.TOPIC_NOT_EXIST
    assert response.remark == "topic[U] not exist"


def test_one_topic_is_shown(harness: Harness) -> None:
    harness.process(RequestCode.UPDATE_AND_CREATE_TOPIC, FIELDS)
    shown = harness.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "T", "lo": "true"})
    assert shown.body == (
        b'{"order":false,"perm":4,"readQueueNums":8,"topicFilterType":"MULTI_TAG",'
        b'"topicName":"T","topicSysFlag":1,"writeQueueNums":6}'
    )
    refused = harness.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "unknown"})
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST
    assert refused.remark == "No topic in this broker. topic: unknown"


@pytest.mark.parametrize("traced", [False, True])
def test_the_topics_of_the_system_are_listed(traced: bool) -> None:
    keys = {"traceTopicEnable": "true", "msgTraceTopicName": "my_trace"} if traced else {}
    response = Harness(**keys).ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    found = decode_body(TopicList, response.body)
    own = {"DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC"}
    assert found == TopicList({*SYSTEM_TOPICS, *own, *(["my_trace"] if traced else [])})


def remove(
    harness: Harness, code: int, fields: dict[str, str], why_not: str = ""
) -> RemotingCommand:
    """Ask, and end the removal that this begins, if it does, as a shell would."""
    outcome = harness.process(code, fields)
    if isinstance(outcome, Waiting) and isinstance(outcome.effect, Removed):
        outcome = harness.resume(outcome, why_not)
    assert isinstance(outcome, RemotingCommand), outcome
    harness.validate()
    return outcome


def test_a_topic_is_deleted_with_every_queue_that_has_none(harness: Harness) -> None:
    for topic in ("T", "U"):
        harness.send(topic)
    harness.store.put_message(MessageDraft("Stray", 0, b""), NOW_MS)
    for kept in (SCHEDULE_TOPIC, "RMQ_SYS_TRANS_OP_HALF_TOPIC", "%LMQ%light"):
        harness.store.put_message(MessageDraft(kept, 0, b""), NOW_MS)
    version = harness.broker.state.topics.data_version.counter
    harness.broker.state.offsets.commit("g", "T", 0, 1)
    harness.instructions()
    outcome = harness.process(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
    assert isinstance(outcome, Waiting) and isinstance(outcome.effect, Removed)
    removal = outcome.effect.removal
    assert set(removal.topics) == {"T", "Stray"}
    assert removal.physical_offset == harness.store.end
    assert harness.saved[-1] == "topics" and not harness.instructions()  # and no registration
    response = harness.resume(outcome, "")
    assert isinstance(response, RemotingCommand)
    assert (response.code, response.remark) == (ResponseCode.SUCCESS, None)
    assert harness.store.removals == [(removal, True)]
    assert harness.broker.state.topics.get("T") is None
    assert harness.broker.state.topics.data_version.counter == version + 1
    assert harness.broker.state.offsets.query("g", "T", 0) == 1  # as in 4.9.3
    assert "U" in harness.store.queues()


def test_a_topic_whose_queues_cannot_be_removed_is_an_error(harness: Harness) -> None:
    harness.send("T")
    response = remove(
        harness, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}, "the disk refuses"
    )
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == "queues not removed: the disk refuses"
    [(_, removed)] = harness.store.removals
    assert not removed
    assert harness.broker.state.topics.get("T") is not None
    assert harness.saved[-2:] == ["topics", "topics"]


def test_an_unknown_topic_is_deleted_without_a_trace(harness: Harness) -> None:
    response = remove(harness, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "never"})
    assert response.code == ResponseCode.SUCCESS
    assert harness.instructions() == []
    assert harness.store.removals == []


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        ("", "The specified topic is blank."),
        ("a/b", "The specified topic contains illegal characters"),
        ("x" * 128, "The specified topic is longer than topic max length."),
        ("TBW102", "The topic[TBW102] is conflict with system topic."),
        ("rmq_sys_x", "The topic[rmq_sys_x] is conflict with system topic."),
        ("DefaultCluster", "The topic[DefaultCluster] is conflict with system topic."),
    ],
)
def test_a_topic_that_may_not_be_deleted_is_refused(
    harness: Harness, topic: str, remark: str
) -> None:
    response = remove(harness, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert (response.remark or "").startswith(remark)


def test_of_a_light_queue_only_the_queue_is_deleted(harness: Harness) -> None:
    for topic in ("%LMQ%light", "Stray"):
        harness.store.put_message(MessageDraft(topic, 0, b""), NOW_MS)
    response = remove(harness, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "%LMQ%light"})
    assert response.code == ResponseCode.SUCCESS
    assert set(harness.store.queues()) == {"Stray"}


def test_queues_without_a_topic_are_removed(harness: Harness) -> None:
    harness.send("T")
    harness.store.put_message(MessageDraft("Stray", 0, b""), NOW_MS)
    assert remove(harness, RequestCode.CLEAN_UNUSED_TOPIC, {}).code == ResponseCode.SUCCESS
    assert set(harness.store.queues()) == {"T"}
    assert remove(harness, RequestCode.CLEAN_UNUSED_TOPIC, {}).code == ResponseCode.SUCCESS


def test_queues_without_messages_are_removed(harness: Harness) -> None:
    for topic in ("T", "U"):
        harness.send(topic)
    harness.store.put_message(MessageDraft(SCHEDULE_TOPIC, 0, b""), NOW_MS)
    for topic in ("T", SCHEDULE_TOPIC):
        harness.store.queues_by_name[topic, 0].begin = 1
    assert remove(harness, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, {}).code == ResponseCode.SUCCESS
    assert set(harness.store.queues()) == {"U", SCHEDULE_TOPIC}
    assert harness.broker.state.topics.get("T") is not None


@pytest.mark.parametrize("forgets", [False, True])
def test_the_counters_of_a_deleted_topic_go_if_wanted(*, forgets: bool) -> None:
    harness = Harness(autoDeleteUnusedStats="true" if forgets else "false")
    harness.send("T")
    remove(harness, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
    assert ("T" in harness.broker.state.traffic.statistics().puts.slots) is not forgets
