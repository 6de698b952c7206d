"""The request table of a broker: code to handler, header, lane and access.

A code that is not in the table is answered with code 3.

Source: org.apache.rocketmq.broker.BrokerController.registerProcessor,
org.apache.rocketmq.acl.plain.PlainAccessValidator.parse (4.9.3).
"""

from wakelog.broker.decision import Lane
from wakelog.broker.processors.clients import check_client_config, heartbeat, unregister_client
from wakelog.broker.processors.config import get_broker_config, update_broker_config
from wakelog.broker.processors.consume_queue import query_consume_queue
from wakelog.broker.processors.groups import (
    get_all_groups,
    get_consumer_connections,
    get_consumer_list,
    update_and_create_group,
)
from wakelog.broker.processors.locks import lock_queues, unlock_queues
from wakelog.broker.processors.offsets import (
    get_earliest_store_time,
    get_max_offset,
    get_min_offset,
    query_consumer_offset,
    search_offset_by_timestamp,
    update_consumer_offset,
)
from wakelog.broker.processors.pull import pull_message
from wakelog.broker.processors.query import query_message, view_message_by_id
from wakelog.broker.processors.send import send_message
from wakelog.broker.processors.send_back import send_back
from wakelog.broker.processors.topics import (
    get_all_topic_config,
    get_topic_stats_info,
    update_and_create_topic,
)
from wakelog.network.request import Access, Permission, Processor, Resource
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.headers.admin import (
    CreateTopicRequestHeader,
    QueryConsumeQueueRequestHeader,
    TopicRequestHeader,
)
from wakelog.protocol.headers.clients import (
    ConsumerGroupRequestHeader,
    UnregisterClientRequestHeader,
)
from wakelog.protocol.headers.offsets import (
    QueryConsumerOffsetRequestHeader,
    QueueRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from wakelog.protocol.headers.pull import (
    PullMessageRequestHeader,
    QueryMessageRequestHeader,
    ViewMessageRequestHeader,
)
from wakelog.protocol.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)

_PUBLISHES = Access(Permission.PUB, Resource.TOPIC, "topic")
_SUBSCRIBES = Access(Permission.SUB, Resource.TOPIC, "topic")
_CONSUMES = Access(Permission.SUB, Resource.GROUP, "consumer_group")
_ADMIN = (Access(Permission.ADMIN, Resource.BROKER),)

_ROWS = {
    RequestCode.SEND_MESSAGE: Processor(
        send_message, SendMessageRequestHeader, Lane.SEND, (_PUBLISHES,)
    ),
    RequestCode.SEND_MESSAGE_V2: Processor(
        send_message, SendMessageRequestHeaderV2, Lane.SEND, (_PUBLISHES,)
    ),
    RequestCode.SEND_BATCH_MESSAGE: Processor(send_message, SendMessageRequestHeaderV2, Lane.SEND),
    RequestCode.CONSUMER_SEND_MSG_BACK: Processor(
        send_back,
        ConsumerSendMsgBackRequestHeader,
        Lane.SEND,
        (
            Access(Permission.PUB, Resource.TOPIC, "origin_topic"),
            Access(Permission.SUB, Resource.GROUP, "group"),
        ),
    ),
    RequestCode.PULL_MESSAGE: Processor(
        pull_message,
        PullMessageRequestHeader,
        Lane.PULL,
        (_SUBSCRIBES, _CONSUMES),
        reads_queues=True,
    ),
    RequestCode.QUERY_MESSAGE: Processor(
        query_message, QueryMessageRequestHeader, Lane.QUERY, (_SUBSCRIBES,), reads_queues=True
    ),
    RequestCode.VIEW_MESSAGE_BY_ID: Processor(
        view_message_by_id, ViewMessageRequestHeader, Lane.QUERY
    ),
    RequestCode.HEART_BEAT: Processor(
        heartbeat, None, Lane.HEARTBEAT, (Access(Permission.SUB, Resource.HEARTBEAT),)
    ),
    RequestCode.UNREGISTER_CLIENT: Processor(
        unregister_client, UnregisterClientRequestHeader, Lane.CLIENT_MANAGE, (_CONSUMES,)
    ),
    RequestCode.CHECK_CLIENT_CONFIG: Processor(check_client_config, None, Lane.CLIENT_MANAGE),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: Processor(
        get_consumer_list, ConsumerGroupRequestHeader, Lane.CONSUMER_MANAGE, (_CONSUMES,)
    ),
    RequestCode.UPDATE_CONSUMER_OFFSET: Processor(
        update_consumer_offset,
        UpdateConsumerOffsetRequestHeader,
        Lane.CONSUMER_MANAGE,
        (_CONSUMES, _SUBSCRIBES),
    ),
    RequestCode.QUERY_CONSUMER_OFFSET: Processor(
        query_consumer_offset, QueryConsumerOffsetRequestHeader, Lane.CONSUMER_MANAGE
    ),
    RequestCode.UPDATE_AND_CREATE_TOPIC: Processor(
        update_and_create_topic, CreateTopicRequestHeader, Lane.ADMIN, _ADMIN
    ),
    RequestCode.GET_ALL_TOPIC_CONFIG: Processor(get_all_topic_config, None, Lane.ADMIN),
    RequestCode.GET_TOPIC_STATS_INFO: Processor(
        get_topic_stats_info, TopicRequestHeader, Lane.ADMIN, reads_queues=True
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Processor(
        update_and_create_group, None, Lane.ADMIN, _ADMIN
    ),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Processor(get_all_groups, None, Lane.ADMIN),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: Processor(
        get_consumer_connections, ConsumerGroupRequestHeader, Lane.ADMIN
    ),
    RequestCode.UPDATE_BROKER_CONFIG: Processor(update_broker_config, None, Lane.ADMIN, _ADMIN),
    RequestCode.GET_BROKER_CONFIG: Processor(get_broker_config, None, Lane.ADMIN),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Processor(
        search_offset_by_timestamp, SearchOffsetRequestHeader, Lane.ADMIN, reads_queues=True
    ),
    RequestCode.GET_MAX_OFFSET: Processor(
        get_max_offset, QueueRequestHeader, Lane.ADMIN, reads_queues=True
    ),
    RequestCode.GET_MIN_OFFSET: Processor(get_min_offset, QueueRequestHeader, Lane.ADMIN),
    RequestCode.GET_EARLIEST_MSG_STORETIME: Processor(
        get_earliest_store_time, QueueRequestHeader, Lane.ADMIN
    ),
    RequestCode.QUERY_CONSUME_QUEUE: Processor(
        query_consume_queue, QueryConsumeQueueRequestHeader, Lane.ADMIN, reads_queues=True
    ),
    RequestCode.LOCK_BATCH_MQ: Processor(lock_queues, None, Lane.ADMIN),
    RequestCode.UNLOCK_BATCH_MQ: Processor(unlock_queues, None, Lane.ADMIN),
}

PROCESSORS: dict[int, Processor] = {int(code): row for code, row in _ROWS.items()}
"""Every request that a broker handles. A lookup by IntEnum keys would be slower."""

NAME_SERVER_CODES = frozenset(
    {
        RequestCode.PUT_KV_CONFIG,
        RequestCode.GET_KV_CONFIG,
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
        RequestCode.GET_KVLIST_BY_NAMESPACE,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.GET_NAMESRV_CONFIG,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
    }
)
"""Codes that only a name server handles. A broker that gets one was mistaken for a name server."""

_NAMES = {int(code): code.name for code in RequestCode}


def unsupported_remark(code: int) -> str:
    """Return 4.9.3's remark for a code without a processor, and its name or where to send it.

    Users of mqadmin see the remark, and a number alone does not name the command.
    """
    remark = f" request type {code} not supported"
    if code in NAME_SERVER_CODES:
        return f"{remark}, ask a name server"
    return f"{remark}: there is no {_NAMES[code]} here" if code in _NAMES else remark
