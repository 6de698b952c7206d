"""Tests of the bodies: names on the wire, defaults, and what real peers send."""

from typing import get_type_hints

import msgspec
import pytest

from tests.protocol.golden_records import config_files
from wakelog.protocol import bodies
from wakelog.protocol.bodies import (
    CONSUME_PASSIVELY,
    FROM_LAST_OFFSET,
    MODEL_BROADCASTING,
    BrokerData,
    ClusterInfo,
    Connection,
    ConsumeQueueData,
    ConsumerConnection,
    ConsumerData,
    DataVersion,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    OffsetMovedEvent,
    ProducerData,
    QueryConsumeQueueResponseBody,
    QueueData,
    RegisterBrokerBody,
    SubscriptionData,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicOffset,
    TopicRouteData,
    TopicStatsTable,
    decode_body,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.fastjson import dumps

QUEUE = MessageQueue("T", "b", 1)

# Each body with every field, as fastjson writes it: alphabetical, keys bare unless strings.
WRITTEN = [
    (
        HeartbeatData(
            "c@1",
            [ProducerData("p")],
            [
                ConsumerData(
                    "g", subscription_data_set=[SubscriptionData(False, "T", "A", {"A"}, {65}, 9)]
                )
            ],
        ),
        '{"clientID":"c@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        '"consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING",'
        '"subscriptionDataSet":[{"classFilterMode":false,"codeSet":[65],"expressionType":"TAG",'
        '"subString":"A","subVersion":9,"tagsSet":["A"],"topic":"T"}],"unitMode":false}],'
        '"producerDataSet":[{"groupName":"p"}]}',
    ),
    (
        TopicRouteData(None, [QueueData("b", 4, 4, 6, 0)], [BrokerData("c", "b", {0: "h:1"})]),
        '{"brokerDatas":[{"brokerAddrs":{0:"h:1"},"brokerName":"b","cluster":"c"}],'
        '"filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,'
        '"topicSysFlag":0,"writeQueueNums":4}]}',
    ),
    (
        ClusterInfo({"b": BrokerData("c", "b", {0: "h:1", 1: "h:2"})}, {"c": {"b"}}),
        '{"brokerAddrTable":{"b":{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"b",'
        '"cluster":"c"}},"clusterAddrTable":{"c":["b"]}}',
    ),
    (
        LockBatchRequestBody("g", "c@1", {QUEUE}),
        '{"clientId":"c@1","consumerGroup":"g",'
        '"mqSet":[{"brokerName":"b","queueId":1,"topic":"T"}]}',
    ),
    (
        LockBatchResponseBody({QUEUE}),
        '{"lockOKMQSet":[{"brokerName":"b","queueId":1,"topic":"T"}]}',
    ),
    (
        TopicStatsTable({QUEUE: TopicOffset(1, 2, 3)}),
        '{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:'
        '{"lastUpdateTimestamp":3,"maxOffset":2,"minOffset":1}}}',
    ),
    (
        ConsumerConnection(
            [Connection("c@1", "h:1", "JAVA", 399)],
            {"T": SubscriptionData(topic="T", sub_string="*", sub_version=0)},
            "CONSUME_PASSIVELY",
        ),
        '{"connectionSet":[{"clientAddr":"h:1","clientId":"c@1","language":"JAVA",'
        '"version":399}],"consumeType":"CONSUME_PASSIVELY","subscriptionTable":{"T":'
        '{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*",'
        '"subVersion":0,"tagsSet":[],"topic":"T"}}}',
    ),
    (
        QueryConsumeQueueResponseBody(
            queue_data=[ConsumeQueueData(1, 2, 3, eval=True)], max_queue_index=5
        ),
        '{"maxQueueIndex":5,"minQueueIndex":0,"queueData":[{"eval":true,"physicOffset":1,'
        '"physicSize":2,"tagsCode":3}]}',
    ),
    (
        OffsetMovedEvent("g", QUEUE, 7, 0),
        '{"consumerGroup":"g","messageQueue":{"brokerName":"b","queueId":1,"topic":"T"},'
        '"offsetNew":0,"offsetRequest":7}',
    ),
    (
        RegisterBrokerBody(TopicConfigSerializeWrapper({"T": TopicConfig("T")}, DataVersion(5, 1))),
        '{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,'
        '"timestamp":5},"topicConfigTable":{"T":{"order":false,"perm":6,"readQueueNums":16,'
        '"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":16}}}}',
    ),
    (TopicList({"T"}), '{"topicList":["T"]}'),
]


@pytest.mark.parametrize(("body", "text"), WRITTEN, ids=lambda value: type(value).__name__)
def test_a_body_is_written_and_read(body: msgspec.Struct, text: str) -> None:
    assert encode_body(body) == text.encode()
    assert decode_body(type(body), text.encode()) == body


def test_every_body_can_be_empty_and_ignores_what_it_does_not_know() -> None:
    types = [
        value
        for value in vars(bodies).values()
        if isinstance(value, type) and issubclass(value, msgspec.Struct)
    ]
    assert len(types) > 25
    for body_type in types:
        assert get_type_hints(body_type)
        assert decode_body(body_type, b'{"unknown":{0:1}}') == body_type()


def test_the_go_clients_heartbeat_is_read() -> None:
    data = (
        b'{"clientID":"10.0.0.1@7","producerDataSet":[],"consumerDataSet":[{"groupName":"g",'
        b'"consumeType":"CONSUME_PASSIVELY","messageModel":"BroadCasting","consumeFromWhere":'
        b'"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{"classFilterMode":false,"topic":"T",'
        b'"subString":"TagA","tagsSet":["TagA"],"codeSet":["2598919"],'
        b'"subVersion":1700000000123456789,"expressionType":"TAG"}],"unitMode":false}]}'
    )
    (consumer,) = decode_body(HeartbeatData, data).consumer_data_set
    assert consumer.message_model == MODEL_BROADCASTING
    (subscription,) = consumer.subscription_data_set
    assert subscription.code_set == {2598919}
    assert subscription.sub_version == 1700000000123456789


def test_the_cpp_clients_heartbeat_is_read() -> None:
    """It gives constants by their place, and numbers as strings."""
    data = (
        b'{"clientID":"7-10.0.0.1@DEFAULT","producerDataSet":[{"groupName":"p"}],'
        b'"consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g",'
        b'"messageModel":0,"subscriptionDataSet":[{"codeSet":["65"],"subString":"A",'
        b'"subVersion":"1700000000123","tagsSet":["A"],"topic":"T"}]}]}\n'
    )
    (consumer,) = decode_body(HeartbeatData, data).consumer_data_set
    assert (consumer.consume_type, consumer.message_model, consumer.consume_from_where) == (
        CONSUME_PASSIVELY,
        MODEL_BROADCASTING,
        FROM_LAST_OFFSET,
    )
    (subscription,) = consumer.subscription_data_set
    assert (subscription.code_set, subscription.sub_version) == ({65}, 1_700_000_000_123)


@pytest.mark.parametrize("place", [-1, 2])
def test_a_constant_that_has_no_such_place_is_refused(place: int) -> None:
    data = b'{"consumerDataSet":[{"groupName":"g","messageModel":%d}]}' % place
    with pytest.raises(RemoteProtocolError):
        decode_body(HeartbeatData, data)


def test_nulls_and_enumerations_of_other_versions_close_no_connection() -> None:
    data = (
        b'{"clientID":"c","producerDataSet":null,"consumerDataSet":[{"groupName":"g",'
        b'"consumeFromWhere":"CONSUME_FROM_MAX_OFFSET","consumeType":"CONSUME_POP",'
        b'"subscriptionDataSet":[{"topic":"T","tagsSet":null,"expressionType":null}]}]}'
    )
    heartbeat = decode_body(HeartbeatData, data)
    assert heartbeat.producer_data_set == []
    (consumer,) = heartbeat.consumer_data_set
    assert consumer.consume_from_where == "CONSUME_FROM_MAX_OFFSET"
    assert consumer.subscription_data_set == [SubscriptionData(topic="T")]


def test_defaults_of_a_group_are_upstreams() -> None:
    assert decode_body(SubscriptionGroupConfig, b'{"groupName":"g"}') == SubscriptionGroupConfig(
        "g", True, True, True, 1, 16, 0, 1, True
    )


def test_bodies_do_not_share_their_containers() -> None:
    HeartbeatData().producer_data_set.append(ProducerData("p"))
    RegisterBrokerBody().topic_config_serialize_wrapper.topic_config_table["T"] = TopicConfig("T")
    assert HeartbeatData().producer_data_set == []
    assert RegisterBrokerBody().topic_config_serialize_wrapper.topic_config_table == {}


def test_a_version_is_equal_only_if_both_numbers_are() -> None:
    version = DataVersion(1000, 3)
    assert version.next(2000) == DataVersion(2000, 4)
    assert version != DataVersion(1000, 4) and version != DataVersion(1001, 3)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "body_type"),
    [
        ("topics.json", TopicConfigSerializeWrapper),
        ("subscriptionGroup.json", SubscriptionGroupWrapper),
    ],
)
def test_the_real_brokers_files_are_bodies(name: str, body_type: type[msgspec.Struct]) -> None:
    content = config_files("delay_tx_retry")[name]
    body = decode_body(body_type, content)
    assert body != body_type()
    assert dumps(body, pretty=True) == content
