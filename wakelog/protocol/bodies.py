"""The JSON bodies of requests and responses, and of the broker's configuration files.

A number in a docstring is the request code that has the body. An attribute is the Java field in
snake_case. Enumerations are strings: a name that 4.9.3 does not
know must not close a client's connection. The names that it knows are below. Read and write bodies
with `decode_body(Type, data)` and `encode_body(value)`.

Source: org.apache.rocketmq.common.{TopicConfig, DataVersion}, common.protocol.body.*,
common.protocol.heartbeat.*, common.protocol.route.*, common.admin.*,
common.subscription.SubscriptionGroupConfig (4.9.3)
"""

from typing import Final

import msgspec

from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.body_codec import decode_body as decode_body
from wakelog.protocol.body_codec import encode_body as encode_body
from wakelog.protocol.ext_fields import Int32, Int64
from wakelog.protocol.sys_flag import PERM_READ, PERM_WRITE

SUBSCRIBE_ALL: Final = "*"
EXPRESSION_TAG: Final = "TAG"

CONSUME_ACTIVELY: Final = "CONSUME_ACTIVELY"
CONSUME_PASSIVELY: Final = "CONSUME_PASSIVELY"
MODEL_BROADCASTING: Final = "BROADCASTING"
MODEL_CLUSTERING: Final = "CLUSTERING"
FROM_LAST_OFFSET: Final = "CONSUME_FROM_LAST_OFFSET"
FROM_FIRST_OFFSET: Final = "CONSUME_FROM_FIRST_OFFSET"
FROM_TIMESTAMP: Final = "CONSUME_FROM_TIMESTAMP"

# Java's constants in their order, which stands for them in the C++ client's heartbeats.
_CONSUME_TYPES: Final = (CONSUME_ACTIVELY, CONSUME_PASSIVELY)
_MESSAGE_MODELS: Final = (MODEL_BROADCASTING, MODEL_CLUSTERING)
_CONSUME_FROM_WHERE: Final = (
    FROM_LAST_OFFSET,
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    FROM_FIRST_OFFSET,
    FROM_TIMESTAMP,
)

FILTER_SINGLE_TAG: Final = "SINGLE_TAG"
FILTER_MULTI_TAG: Final = "MULTI_TAG"


class DataVersion(msgspec.Struct, frozen=True):
    """The version of a table; equal only if both numbers are."""

    timestamp: Int64 = 0
    counter: Int64 = 0

    def next(self, now_ms: int) -> "DataVersion":
        """Return the version after a change at `now_ms`."""
        return DataVersion(now_ms, self.counter + 1)


class TopicConfig(msgspec.Struct, rename="camel"):
    """A topic at a broker."""

    topic_name: str = ""
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = PERM_READ | PERM_WRITE
    topic_filter_type: str = FILTER_SINGLE_TAG
    topic_sys_flag: Int32 = 0
    order: bool = False


class TopicConfigSerializeWrapper(msgspec.Struct, rename="camel"):
    """21, 103 and topics.json: the topic table."""

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()


class TopicsForSlave(TopicConfigSerializeWrapper, rename="camel"):
    """21 between two wakelog brokers, if the request asks for it (`DELETED_ENDS_FIELD`).

    wakelog_deleted_ends: by topic, below which physical offset its records have no queue.
    """

    wakelog_deleted_ends: dict[str, int] = {}


DELETED_ENDS_FIELD: Final = "wakelogDeletedEnds"
"""Of a request 21 and its body. 4.9.3 ignores such a field, and answers without the key."""


class SubscriptionGroupConfig(msgspec.Struct, rename="camel"):
    """200: a consumer group at a broker."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True


class SubscriptionGroupWrapper(msgspec.Struct, rename="camel"):
    """201 and subscriptionGroup.json: the table of groups."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    data_version: DataVersion = DataVersion()


class HeldLock(msgspec.Struct, rename="camel", frozen=True):
    """A queue that a client consumes in order, and how long ago it renewed the lock."""

    group: str = ""
    client_id: str = ""
    queue: MessageQueue = MessageQueue()
    age_ms: Int64 = 0


class HeldLocks(msgspec.Struct, rename="camel"):
    """201 between two members of a group with a register, if the request asks for it."""

    wakelog_locks: list[HeldLock] = []


LOCKS_FIELD: Final = "wakelogLocks"
"""Of a request 201; the answer then has the locks, and no groups."""


class SubscriptionData(msgspec.Struct, rename="camel"):
    """A consumer's subscription to one topic.

    A subscription without a version, as some clients send, is as new as its heartbeat: 4.9.3 takes
    the time at which it reads the body.
    """

    class_filter_mode: bool = False
    topic: str = ""
    sub_string: str = ""
    tags_set: set[str] = set()
    code_set: set[Int32] = set()
    sub_version: Int64 | None = None
    expression_type: str = EXPRESSION_TAG


class ProducerData(msgspec.Struct, rename="camel"):
    """A producer group in a heartbeat."""

    group_name: str = ""


class ConsumerData(msgspec.Struct, rename="camel"):
    """A consumer group in a heartbeat.

    A constant is its place among Java's, as in the C++ client, or its name in any case, as with
    fastjson: the Go client writes `BroadCasting`. Any other name is none, as with fastjson.
    """

    group_name: str = ""
    consume_type: str | Int32 = CONSUME_PASSIVELY
    message_model: str | Int32 = MODEL_CLUSTERING
    consume_from_where: str | Int32 = FROM_LAST_OFFSET
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False

    def __post_init__(self) -> None:
        """Write the names in 4.9.3's form. Raises: ValueError for a place without a name."""
        self.consume_type = _constant(self.consume_type, _CONSUME_TYPES)
        self.message_model = _constant(self.message_model, _MESSAGE_MODELS)
        self.consume_from_where = _constant(self.consume_from_where, _CONSUME_FROM_WHERE)


def _constant(value: str | int, names: tuple[str, ...]) -> str:
    if isinstance(value, str):
        return value.upper() if value.upper() in names else ""
    if not 0 <= value < len(names):
        raise ValueError(f"{value} is none of {', '.join(names)}")
    return names[value]


class HeartbeatData(msgspec.Struct, rename="camel"):
    """34: the groups a client belongs to."""

    client_id: str = msgspec.field(default="", name="clientID")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []


class CheckClientRequestBody(msgspec.Struct, rename="camel"):
    """46: whether a broker accepts a subscription."""

    client_id: str = ""
    group: str = ""
    subscription_data: SubscriptionData | None = None


class GetConsumerListByGroupResponseBody(msgspec.Struct, rename="camel"):
    """Answer to 38: the client ids of a group."""

    consumer_id_list: list[str] = []


class LockBatchRequestBody(msgspec.Struct, rename="camel"):
    """41, 42: queues that a client wants to lock, or unlocks."""

    consumer_group: str = ""
    client_id: str = ""
    mq_set: set[MessageQueue] = set()


class LockBatchResponseBody(msgspec.Struct):
    """Answer to 41: the queues it got."""

    lock_ok_mq_set: set[MessageQueue] = msgspec.field(default_factory=set, name="lockOKMQSet")


class QueueData(msgspec.Struct, rename="camel"):
    """A topic's queues at one broker name."""

    broker_name: str = ""
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0


class BrokerData(msgspec.Struct, rename="camel"):
    """The addresses of one broker name by broker id; 0 is the master."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[Int64, str] = {}


class TopicRouteData(msgspec.Struct, rename="camel"):
    """Answer to 105: the brokers and queues of a topic."""

    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}


class ClusterInfo(msgspec.Struct, rename="camel"):
    """Answer to 106: every broker, and the broker names of each cluster."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, set[str]] = {}


class RegisterBrokerBody(msgspec.Struct, rename="camel"):
    """103: the topics of a broker; register_broker.py has the compressed form."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = msgspec.field(
        default_factory=TopicConfigSerializeWrapper
    )
    filter_server_list: list[str] = []


class KVTable(msgspec.Struct):
    """28, 103's answer, 219: names and values."""

    table: dict[str, str] = {}


class KVConfigSerializeWrapper(msgspec.Struct, rename="camel"):
    """kvConfig.json of a name server: namespace to key to value."""

    config_table: dict[str, dict[str, str]] = {}


class TopicList(msgspec.Struct, rename="camel"):
    """206, 224, 304, 305: names of topics."""

    topic_list: set[str] = set()
    broker_addr: str | None = None


class TopicOffset(msgspec.Struct, rename="camel"):
    """Both ends of a queue."""

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0


class TopicStatsTable(msgspec.Struct, rename="camel"):
    """Answer to 202."""

    offset_table: dict[MessageQueue, TopicOffset] = {}


class OffsetWrapper(msgspec.Struct, rename="camel"):
    """How far a group has consumed one queue; the time is of the last message it consumed."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0


class ConsumeStats(msgspec.Struct, rename="camel"):
    """Answer to 208: how far a group has consumed, and messages a second in the last minute."""

    offset_table: dict[MessageQueue, OffsetWrapper] = {}
    consume_tps: float = 0.0

    def total_diff(self) -> int:
        """Return how many messages the group has not consumed."""
        return sum(one.broker_offset - one.consumer_offset for one in self.offset_table.values())


class ConsumeStatsList(msgspec.Struct, rename="camel"):
    """Answer to 317: by group, one ConsumeStats for each of its topics."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    broker_addr: str | None = None
    total_diff: Int64 = 0


class QueueTimeSpan(msgspec.Struct, rename="camel"):
    """The times of one queue, in milliseconds and as local time; -1 where there is no message."""

    message_queue: MessageQueue = MessageQueue()
    min_time_stamp: Int64 = 0
    max_time_stamp: Int64 = 0
    consume_time_stamp: Int64 = 0
    delay_time: Int64 = 0
    min_time_stamp_str: str = ""
    max_time_stamp_str: str = ""
    consume_time_stamp_str: str = ""


class QueryConsumeTimeSpanBody(msgspec.Struct, rename="camel"):
    """Answer to 303."""

    consume_time_span_set: list[QueueTimeSpan] = []


class GroupList(msgspec.Struct, rename="camel"):
    """Answer to 300: names of groups."""

    group_list: set[str] = set()


class QueryCorrectionOffsetBody(msgspec.Struct, rename="camel"):
    """Answer to 308: offset by queue id."""

    correction_offsets: dict[Int32, Int64] = {}


class BrokerStatsItem(msgspec.Struct):
    """What came in one period: the amount, the amount a second, the amount a call."""

    sum: Int64 = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(msgspec.Struct, rename="camel"):
    """Answer to 315."""

    stats_minute: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)


class Connection(msgspec.Struct, rename="camel"):
    """A client as the broker sees it; `language` is the name."""

    client_id: str = ""
    client_addr: str = ""
    language: str = ""
    version: Int32 = 0


class ConsumerConnection(msgspec.Struct, rename="camel"):
    """Answer to 203: the clients of a consumer group and what it subscribes to."""

    connection_set: list[Connection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


class ProducerConnection(msgspec.Struct, rename="camel"):
    """Answer to 204: the clients of a producer group."""

    connection_set: list[Connection] = []


class ProducerInfo(msgspec.Struct, rename="camel"):
    """A producer's connection; `remote_ip` is ``/host:port``, the time of its last heartbeat."""

    client_id: str = ""
    remote_ip: str = msgspec.field(default="", name="remoteIP")
    language: str = ""
    version: Int32 = 0
    last_update_timestamp: Int64 = 0


class ProducerTableInfo(msgspec.Struct, rename="camel"):
    """Answer to 328: the connections of every producer group."""

    data: dict[str, list[ProducerInfo]] = {}


class ConsumerRunningInfo(msgspec.Struct, rename="camel"):
    """Answer to 307: what a client does; the values are of ProcessQueueInfo and ConsumeStatus."""

    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionData] = []
    mq_table: dict[MessageQueue, dict[str, bool | int]] = {}
    status_table: dict[str, dict[str, float]] = {}
    jstack: str | None = None


class ConsumeMessageDirectlyResult(msgspec.Struct, rename="camel"):
    """Answer to 309: what came of one consumption."""

    order: bool = False
    auto_commit: bool = True
    consume_result: str | None = None
    remark: str | None = None
    spent_time_mills: Int64 = 0


class ResetOffsetBody(msgspec.Struct, rename="camel"):
    """220 and the answer to 222: the new offset of each queue."""

    offset_table: dict[MessageQueue, Int64] = {}


class MessageQueueForC(msgspec.Struct, rename="camel"):
    """A queue and its new offset."""

    topic: str = ""
    broker_name: str = ""
    queue_id: Int32 = 0
    offset: Int64 = 0


class ResetOffsetBodyForC(msgspec.Struct, rename="camel"):
    """220 to clients that are written in C++."""

    offset_table: list[MessageQueueForC] = []


class GetConsumerStatusBody(msgspec.Struct, rename="camel"):
    """Answer to 221: the offsets of a client. Answer to 223: those of each client by its id."""

    message_queue_table: dict[MessageQueue, Int64] = {}
    consumer_table: dict[str, dict[MessageQueue, Int64]] = {}


class ConsumeQueueData(msgspec.Struct, rename="camel"):
    """One consume queue entry, in the answer to 321."""

    physic_offset: Int64 = 0
    physic_size: Int32 = 0
    tags_code: Int64 = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


class QueryConsumeQueueResponseBody(msgspec.Struct, rename="camel"):
    """Answer to 321."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] | None = None
    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0


class PlainAccessConfig(msgspec.Struct, rename="camel", omit_defaults=True):
    """One account, in a file of accounts and in the answer to 54."""

    access_key: str | None = None
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None

    def __repr__(self) -> str:
        """Leave out the secret key: errors and logs show accounts."""
        return f"PlainAccessConfig({self.access_key!r})"


class AclConfig(msgspec.Struct, rename="camel"):
    """Answer to 54: the accounts, and the addresses that need none."""

    global_white_addrs: list[str] = []
    plain_access_configs: list[PlainAccessConfig] = []


class OffsetMovedEvent(msgspec.Struct, rename="camel"):
    """Body of the message a master writes to OFFSET_MOVED_EVENT for an illegal pull offset."""

    consumer_group: str = ""
    message_queue: MessageQueue = MessageQueue()
    offset_request: Int64 = 0
    offset_new: Int64 = 0
