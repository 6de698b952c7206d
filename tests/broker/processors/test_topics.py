"""Codes 17, 21, 202 and 305 (facts 27 and 28)."""

from collections.abc import Callable

import pytest

from tests.broker.harness import NOW_MS, Harness
from wakelog.broker.decision import AwaitRegistration, Persist, RegisterBroker
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
    assert isinstance(outcome, AwaitRegistration)
    assert outcome.response.code == ResponseCode.SUCCESS
    # Fact 27: order is ignored.
    assert harness.broker.state.topics.get("T") == TopicConfig("T", 8, 6, 4, "MULTI_TAG", 1)
    assert harness.instructions() == [Persist("topics"), RegisterBroker(oneway=False)]


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


@pytest.mark.parametrize("traced", [False, True])
def test_the_topics_of_the_system_are_listed(traced: bool) -> None:
    keys = {"traceTopicEnable": "true", "msgTraceTopicName": "my_trace"} if traced else {}
    response = Harness(**keys).ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    found = decode_body(TopicList, response.body)
    own = {"DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC"}
    assert found == TopicList({*SYSTEM_TOPICS, *own, *(["my_trace"] if traced else [])})
