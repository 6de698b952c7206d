"""Headers against the specification: their names on the wire, and their defaults.

A table has the class name and its fields, `name` optional, `name!` required: the columns of the
specification's sections 1.1 to 1.3. 4.9.3 marks a few more fields as required and still answers
requests without them: producerGroup and the default topic of a send with long names; how a pull
commits, waits and subscribes; the client id of an unregistration; defaultTopic and order of a
topic.
"""

from types import ModuleType

import msgspec
import pytest

from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import Header, read_header, to_ext_fields
from wakelog.protocol.headers import (
    accounts,
    admin,
    clients,
    name_server,
    offsets,
    pull,
    send,
    transactions,
)
from wakelog.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2

FIELDS: dict[ModuleType, dict[str, str]] = {
    accounts: {
        "CreateAccessConfigRequestHeader": (
            "accessKey secretKey whiteRemoteAddress admin defaultTopicPerm defaultGroupPerm "
            "topicPerms groupPerms"
        ),
        "DeleteAccessConfigRequestHeader": "accessKey",
        "UpdateGlobalWhiteAddrsConfigRequestHeader": "globalWhiteAddrs",
        "GetBrokerAclConfigResponseHeader": (
            "version! allAclFileVersion brokerName! brokerAddr! clusterName!"
        ),
    },
    admin: {
        "CreateTopicRequestHeader": (
            "topic! defaultTopic readQueueNums! writeQueueNums! perm! topicFilterType! "
            "topicSysFlag order"
        ),
        "TopicRequestHeader": "topic!",
        "GetConsumeStatsRequestHeader": "consumerGroup! topic",
        "GetConsumeStatsInBrokerHeader": "isOrder",
        "QueryConsumeTimeSpanRequestHeader": "topic! group",
        "QueryCorrectionOffsetHeader": "topic! filterGroups",
        "ViewBrokerStatsDataRequestHeader": "statsName! statsKey!",
        "QueryConsumeQueueRequestHeader": "topic queueId index count consumerGroup",
    },
    clients: {
        "ConsumerGroupRequestHeader": "consumerGroup!",
        "UnregisterClientRequestHeader": "clientID producerGroup consumerGroup",
        "DeleteSubscriptionGroupRequestHeader": "groupName! removeOffset",
        "GetSubscriptionGroupConfigRequestHeader": "group!",
        "RegisterFilterServerRequestHeader": "filterServerAddr!",
        "ProducerGroupRequestHeader": "producerGroup!",
        "ResetOffsetRequestHeader": "topic! group! timestamp! isForce",
        "GetConsumerStatusRequestHeader": "topic! group! clientAddr",
        "ConsumerClientRequestHeader": "consumerGroup! clientId msgId",
    },
    name_server: {
        "PutKVConfigRequestHeader": "namespace! key! value!",
        "KVConfigKeyRequestHeader": "namespace! key!",
        "GetKVListByNamespaceRequestHeader": "namespace!",
        "RegisterBrokerRequestHeader": (
            "brokerName! brokerAddr! clusterName! haServerAddr! brokerId! compressed bodyCrc32"
            " electionEpoch"
        ),
        "RegisterBrokerResponseHeader": "haServerAddr masterAddr",
        "BrokerIdentityRequestHeader": "brokerName! brokerAddr! clusterName! brokerId!",
        "BrokerNameRequestHeader": "brokerName!",
        "GetTopicsByClusterRequestHeader": "cluster!",
    },
    offsets: {
        "QueueRequestHeader": "topic! queueId!",
        "SearchOffsetRequestHeader": "topic! queueId! timestamp!",
        "QueryConsumerOffsetRequestHeader": "consumerGroup! topic! queueId!",
        "UpdateConsumerOffsetRequestHeader": "consumerGroup! topic! queueId! commitOffset!",
        "CloneGroupOffsetRequestHeader": "srcGroup! destGroup! topic offline",
        "OffsetResponseHeader": "offset!",
    },
    pull: {
        "PullMessageRequestHeader": (
            "consumerGroup! topic! queueId! queueOffset! maxMsgNums! sysFlag! commitOffset "
            "suspendTimeoutMillis subscription subVersion expressionType"
        ),
        "PullMessageResponseHeader": "suggestWhichBrokerId! nextBeginOffset! minOffset! maxOffset!",
        "QueryMessageRequestHeader": (
            "topic! key! maxNum! beginTimestamp! endTimestamp! _UNIQUE_KEY_QUERY"
        ),
        "ViewMessageRequestHeader": "offset!",
    },
    send: {
        "SendMessageRequestHeader": (
            "producerGroup topic! defaultTopic defaultTopicQueueNums queueId! sysFlag! "
            "bornTimestamp! flag! properties reconsumeTimes unitMode batch maxReconsumeTimes"
        ),
        "SendMessageRequestHeaderV2": "a! b! c! d! e! f! g! h! i j k l m",
        "SendReplyRequestHeader": (
            "producerGroup topic! defaultTopic defaultTopicQueueNums queueId! sysFlag "
            "bornTimestamp! flag! properties reconsumeTimes unitMode batch maxReconsumeTimes"
        ),
        "SendReplyRequestHeaderV2": "a b! c d e! f g! h! i j k l m",
        "SendMessageResponseHeader": "msgId! queueId! queueOffset! transactionId",
        "ReplyMessageRequestHeader": (
            "producerGroup! topic! defaultTopic! defaultTopicQueueNums! queueId! sysFlag! "
            "bornTimestamp! flag! properties reconsumeTimes unitMode bornHost! storeHost! "
            "storeTimestamp!"
        ),
        "ConsumerSendMsgBackRequestHeader": (
            "offset! group! delayLevel! originMsgId originTopic unitMode maxReconsumeTimes"
        ),
    },
    transactions: {
        "EndTransactionRequestHeader": (
            "producerGroup! tranStateTableOffset! commitLogOffset! commitOrRollback! "
            "fromTransactionCheck msgId transactionId"
        ),
        "CheckTransactionStateRequestHeader": (
            "tranStateTableOffset! commitLogOffset! msgId transactionId offsetMsgId"
        ),
        "ResumeCheckHalfMessageRequestHeader": "msgId",
    },
}


@pytest.mark.parametrize("module", FIELDS, ids=lambda module: module.__name__)
def test_the_headers_of_a_module_are_those_of_the_specification(module: ModuleType) -> None:
    table = FIELDS[module]
    types = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Header) and value is not Header
    }
    assert set(types) == set(table)
    for name, text in table.items():
        fields = msgspec.structs.fields(types[name])
        assert {f.encode_name + "!" * f.required for f in fields} == set(text.split()), name
        strings = {f.encode_name: "true" if f.type is bool else "7" for f in fields}
        assert to_ext_fields(read_header(types[name], strings)) == strings, name
        for field in fields:
            if field.required:
                absent = {key: value for key, value in strings.items() if key != field.encode_name}
                with pytest.raises(RemoteProtocolError, match=f"<{field.encode_name}> is null"):
                    read_header(types[name], absent)


def test_a_secret_key_is_not_shown() -> None:
    header = accounts.CreateAccessConfigRequestHeader(access_key="who", secret_key="hush")
    assert "who" in repr(header) and "hush" not in repr(header)


def test_defaults_are_those_of_4_9_3() -> None:
    request = {"topic": "T", "readQueueNums": "8", "writeQueueNums": "8", "perm": "6"}
    created = read_header(
        admin.CreateTopicRequestHeader, {**request, "topicFilterType": "SINGLE_TAG"}
    )
    assert (created.order, created.topic_sys_flag) == (False, None)
    queue = read_header(admin.QueryConsumeQueueRequestHeader, {})
    assert (queue.queue_id, queue.index, queue.count) == (0, 0, 0)


def test_both_send_headers_have_the_same_attributes() -> None:
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
