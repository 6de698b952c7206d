"""Tests of the headers themselves: their names on the wire and which fields are required."""

import msgspec
import pytest

from wakelog.protocol import headers
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    read_header,
    to_ext_fields,
)

# `name` optional, `name!` required: the columns of the specification's sections 1.1 to 1.3.
# Upstream marks a few more as required and answers requests without them all the same: of a send
# with long names the group and what a topic is made after; how a pull commits, waits and what it
# subscribes; which client it is that unregisters.
FIELDS = {
    "SendMessageRequestHeader": "producerGroup topic! defaultTopic defaultTopicQueueNums "
    "queueId! sysFlag! bornTimestamp! flag! properties reconsumeTimes unitMode batch "
    "maxReconsumeTimes",
    "SendMessageRequestHeaderV2": "a! b! c! d! e! f! g! h! i j k l m",
    "SendMessageResponseHeader": "msgId! queueId! queueOffset! transactionId",
    "ConsumerSendMsgBackRequestHeader": "offset! group! delayLevel! originMsgId originTopic "
    "unitMode maxReconsumeTimes",
    "PullMessageRequestHeader": "consumerGroup! topic! queueId! queueOffset! maxMsgNums! sysFlag! "
    "commitOffset suspendTimeoutMillis subscription subVersion expressionType",
    "PullMessageResponseHeader": "suggestWhichBrokerId! nextBeginOffset! minOffset! maxOffset!",
    "QueryMessageRequestHeader": "topic! key! maxNum! beginTimestamp! endTimestamp!",
    "QueryMessageResponseHeader": "indexLastUpdateTimestamp! indexLastUpdatePhyoffset!",
    "ViewMessageRequestHeader": "offset!",
    "UnregisterClientRequestHeader": "clientID producerGroup consumerGroup",
    "GetConsumerListByGroupRequestHeader": "consumerGroup!",
    "NotifyConsumerIdsChangedRequestHeader": "consumerGroup!",
    "QueryConsumerOffsetRequestHeader": "consumerGroup! topic! queueId!",
    "QueryConsumerOffsetResponseHeader": "offset!",
    "UpdateConsumerOffsetRequestHeader": "consumerGroup! topic! queueId! commitOffset!",
    "SearchOffsetRequestHeader": "topic! queueId! timestamp!",
    "SearchOffsetResponseHeader": "offset!",
    "GetMaxOffsetRequestHeader": "topic! queueId!",
    "GetMaxOffsetResponseHeader": "offset!",
    "GetMinOffsetRequestHeader": "topic! queueId!",
    "GetMinOffsetResponseHeader": "offset!",
    "GetEarliestMsgStoretimeRequestHeader": "topic! queueId!",
    "GetEarliestMsgStoretimeResponseHeader": "timestamp!",
    # Upstream requires defaultTopic and order too, and then looks at neither.
    "CreateTopicRequestHeader": "topic! defaultTopic readQueueNums! writeQueueNums! perm! "
    "topicFilterType! topicSysFlag order",
    "DeleteTopicRequestHeader": "topic!",
    "GetBrokerConfigResponseHeader": "version!",
    "GetTopicStatsInfoRequestHeader": "topic!",
    "GetConsumerConnectionListRequestHeader": "consumerGroup!",
    "GetProducerConnectionListRequestHeader": "producerGroup!",
    "QueryConsumeQueueRequestHeader": "topic queueId index count consumerGroup",
    "PutKVConfigRequestHeader": "namespace! key! value!",
    "GetKVConfigRequestHeader": "namespace! key!",
    "GetKVConfigResponseHeader": "value",
    "DeleteKVConfigRequestHeader": "namespace! key!",
    "GetKVListByNamespaceRequestHeader": "namespace!",
    "RegisterBrokerRequestHeader": "brokerName! brokerAddr! clusterName! haServerAddr! brokerId! "
    "compressed bodyCrc32",
    "RegisterBrokerResponseHeader": "haServerAddr masterAddr",
    "UnRegisterBrokerRequestHeader": "brokerName! brokerAddr! clusterName! brokerId!",
    "GetRouteInfoRequestHeader": "topic!",
    "QueryDataVersionRequestHeader": "brokerName! brokerAddr! clusterName! brokerId!",
    "QueryDataVersionResponseHeader": "changed!",
    "WipeWritePermOfBrokerRequestHeader": "brokerName!",
    "WipeWritePermOfBrokerResponseHeader": "wipeTopicCount!",
    "AddWritePermOfBrokerRequestHeader": "brokerName!",
    "AddWritePermOfBrokerResponseHeader": "addTopicCount!",
    "DeleteTopicFromNamesrvRequestHeader": "topic!",
    "GetTopicsByClusterRequestHeader": "cluster!",
}


def header_types() -> dict[str, type[msgspec.Struct]]:
    return {
        name: value
        for name, value in vars(headers).items()
        if isinstance(value, type) and issubclass(value, msgspec.Struct)
    }


def test_every_header_is_in_the_table() -> None:
    assert set(header_types()) == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_a_header_has_the_specifications_fields(name: str) -> None:
    fields = {
        field.encode_name + "!" * field.required
        for field in msgspec.structs.fields(header_types()[name])
    }
    assert fields == set(FIELDS[name].split())


@pytest.mark.parametrize("name", FIELDS)
def test_a_header_is_read_from_strings_and_misses_what_is_required(name: str) -> None:
    header_type = header_types()[name]
    strings = {
        field.encode_name: "true" if field.type is bool else "7"
        for field in msgspec.structs.fields(header_type)
    }
    header = read_header(header_type, strings)
    assert to_ext_fields(header) == strings
    for field in FIELDS[name].split():
        if field.endswith("!"):
            absent = {key: value for key, value in strings.items() if key != field[:-1]}
            with pytest.raises(RemoteProtocolError, match=f"<{field[:-1]}> is null"):
                read_header(header_type, absent)


def test_letters_stand_for_the_same_attributes_as_names() -> None:
    long_names = SendMessageRequestHeader.__struct_fields__
    assert SendMessageRequestHeaderV2.__struct_fields__ == long_names


def test_a_v2_send_of_the_java_client_is_read() -> None:
    header = read_header(
        SendMessageRequestHeaderV2,
        {"a": "g", "b": "T", "c": "TBW102", "d": "4", "e": "2", "f": "0", "g": "1700000000000"}
        | {
            "h": "5",
            "i": "k\x01v",
            "j": "1",
            "k": "false",
            "l": "16",
            "m": "true",
            "n": "broker-a",
        },
    )
    assert (header.producer_group, header.topic, header.queue_id) == ("g", "T", 2)
    assert (header.born_timestamp, header.flag) == (1700000000000, 5)
    assert (header.reconsume_times, header.max_reconsume_times) == (1, 16)
    assert (header.unit_mode, header.batch) == (False, True)


def test_defaults_are_upstreams() -> None:
    request = {"topic": "T", "readQueueNums": "8", "writeQueueNums": "8", "perm": "6"}
    created = read_header(
        headers.CreateTopicRequestHeader, {**request, "topicFilterType": "SINGLE_TAG"}
    )
    assert (created.order, created.topic_sys_flag) == (False, None)
    queue = read_header(headers.QueryConsumeQueueRequestHeader, {})
    assert (queue.queue_id, queue.index, queue.count) == (0, 0, 0)
