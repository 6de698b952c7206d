"""The header of each request and response we handle, as Structs.

An attribute is the Java field in snake_case; the wire has the Java name, or a letter in
SEND_MESSAGE_V2. A field without a default is one upstream marks @CFNotNull and needs for every such
request: one without it is refused. What upstream marks and looks at only sometimes, as what a new
topic is made after, may be absent, as it may there. The two send headers have the same attributes,
so that processors need not care which one a request brought.

Source: org.apache.rocketmq.common.protocol.header.* (4.9.3)
"""

from typing import Final

import msgspec

from wakelog.protocol.ext_fields import Int32, Int64
from wakelog.protocol.ext_fields import missing_field_remark as missing_field_remark
from wakelog.protocol.ext_fields import read_header as read_header
from wakelog.protocol.ext_fields import to_ext_fields as to_ext_fields

V2_LETTERS: Final = {
    "producer_group": "a",
    "topic": "b",
    "default_topic": "c",
    "default_topic_queue_nums": "d",
    "queue_id": "e",
    "sys_flag": "f",
    "born_timestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsume_times": "j",
    "unit_mode": "k",
    "max_reconsume_times": "l",
    "batch": "m",
}
"""SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE name their fields by letter to save bytes."""


class SendMessageRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """10, 324: a send with long names."""

    producer_group: str = ""
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: Int32 | None = None
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    batch: bool = False
    max_reconsume_times: Int32 | None = None


class SendMessageRequestHeaderV2(msgspec.Struct, frozen=True, kw_only=True, rename=V2_LETTERS):
    """310, 320, 325: a send with letters."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    batch: bool = False
    max_reconsume_times: Int32 | None = None


SendHeader = SendMessageRequestHeader | SendMessageRequestHeaderV2


class SendMessageResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to every send."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None


class ConsumerSendMsgBackRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """36: a message to consume again later."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class PullMessageRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """11: messages from one queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64 | None = None
    suspend_timeout_millis: Int64 = 0
    sub_version: Int64 = 0
    subscription: str | None = None
    expression_type: str | None = None


class PullMessageResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to a pull, found or not."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64


class QueryMessageRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """12: messages by key."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64


class QueryMessageResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to a query by key."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """33: the message at a physical offset."""

    offset: Int64


class UnregisterClientRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """35: a client leaves its groups; which one it is says its connection."""

    client_id: str | None = msgspec.field(default=None, name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroupRequestHeader(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel"
):
    """38: the clients of a group."""

    consumer_group: str


class NotifyConsumerIdsChangedRequestHeader(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel"
):
    """40, broker to client: balance the queues again."""

    consumer_group: str


class QueryConsumerOffsetRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """14: where a group stands."""

    consumer_group: str
    topic: str
    queue_id: Int32


class QueryConsumerOffsetResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to 14."""

    offset: Int64


class UpdateConsumerOffsetRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """15: a group has consumed up to here."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffsetRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """29: the queue offset at a time."""

    topic: str
    queue_id: Int32
    timestamp: Int64


class SearchOffsetResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to 29."""

    offset: Int64


class GetMaxOffsetRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """30: the end of a queue."""

    topic: str
    queue_id: Int32


class GetMaxOffsetResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to 30."""

    offset: Int64


class GetMinOffsetRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """31: the begin of a queue."""

    topic: str
    queue_id: Int32


class GetMinOffsetResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to 31."""

    offset: Int64


class GetEarliestMsgStoretimeRequestHeader(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel"
):
    """32: when a queue's first message was stored."""

    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeResponseHeader(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel"
):
    """Answer to 32; -1 when there is none."""

    timestamp: Int64


class CreateTopicRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """17: create or change a topic. 4.9.3 ignores defaultTopic and order."""

    topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    default_topic: str | None = None
    topic_sys_flag: Int32 | None = None
    order: bool = False


class DeleteTopicRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """215: forget a topic at the broker."""

    topic: str


class GetBrokerConfigResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to 26: the DataVersion of the configuration, as JSON."""

    version: str


class GetTopicStatsInfoRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """202: both ends of each queue of a topic."""

    topic: str


class GetConsumerConnectionListRequestHeader(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel"
):
    """203: the connections of a group."""

    consumer_group: str


class GetProducerConnectionListRequestHeader(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel"
):
    """204: the connections of a producer group."""

    producer_group: str


class QueryConsumeQueueRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """321: entries of a consume queue."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None


class PutKVConfigRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """100: set a value at the name server."""

    namespace: str
    key: str
    value: str


class GetKVConfigRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """101: a value of the name server."""

    namespace: str
    key: str


class GetKVConfigResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to 101."""

    value: str | None = None


class DeleteKVConfigRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """102: remove a value of the name server."""

    namespace: str
    key: str


class GetKVListByNamespaceRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """219: all values of a namespace."""

    namespace: str


class RegisterBrokerRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """103: a broker says that it is there."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    compressed: bool = False
    body_crc32: Int32 = 0


class RegisterBrokerResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to 103: the master's addresses, for slaves."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnRegisterBrokerRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """104: a broker leaves."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class GetRouteInfoRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """105: the brokers and queues of a topic."""

    topic: str


class QueryDataVersionRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """322: has the topic table changed?"""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to 322."""

    changed: bool


class WipeWritePermOfBrokerRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """205: no producer is to choose this broker."""

    broker_name: str


class WipeWritePermOfBrokerResponseHeader(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel"
):
    """Answer to 205."""

    wipe_topic_count: Int32


class AddWritePermOfBrokerRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """327: producers may choose this broker again."""

    broker_name: str


class AddWritePermOfBrokerResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to 327."""

    add_topic_count: Int32


class DeleteTopicFromNamesrvRequestHeader(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel"
):
    """216: forget a topic at the name server."""

    topic: str


class GetTopicsByClusterRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """224: the topics of a cluster's brokers."""

    cluster: str
