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
from wakelog.network.request import Access, Permission, Resource, processor
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2

_PUBLISHES = Access(Permission.PUB, Resource.TOPIC, "topic")
_PUBLISHES_AGAIN = Access(Permission.PUB, Resource.TOPIC, "origin_topic")
_RETRIES = Access(Permission.SUB, Resource.GROUP, "group")
_SUBSCRIBES = Access(Permission.SUB, Resource.TOPIC, "topic")
_CONSUMES = Access(Permission.SUB, Resource.GROUP, "consumer_group")
_HEARTBEATS = Access(Permission.SUB, Resource.HEARTBEAT)
_ADMINISTERS = Access(Permission.ADMIN, Resource.BROKER)

_V1, _V2 = SendMessageRequestHeader, SendMessageRequestHeaderV2

_ROWS = {
    RequestCode.SEND_MESSAGE: processor(send_message, Lane.SEND, _PUBLISHES, header=_V1),
    RequestCode.SEND_MESSAGE_V2: processor(send_message, Lane.SEND, _PUBLISHES, header=_V2),
    RequestCode.SEND_BATCH_MESSAGE: processor(send_message, Lane.SEND, header=_V2),
    RequestCode.CONSUMER_SEND_MSG_BACK: processor(send_back, Lane.SEND, _PUBLISHES_AGAIN, _RETRIES),
    RequestCode.PULL_MESSAGE: processor(
        pull_message, Lane.PULL, _SUBSCRIBES, _CONSUMES, reads_queues=True
    ),
    RequestCode.QUERY_MESSAGE: processor(query_message, Lane.QUERY, _SUBSCRIBES, reads_queues=True),
    RequestCode.VIEW_MESSAGE_BY_ID: processor(view_message_by_id, Lane.QUERY),
    RequestCode.HEART_BEAT: processor(heartbeat, Lane.HEARTBEAT, _HEARTBEATS),
    RequestCode.UNREGISTER_CLIENT: processor(unregister_client, Lane.CLIENT_MANAGE, _CONSUMES),
    RequestCode.CHECK_CLIENT_CONFIG: processor(check_client_config, Lane.CLIENT_MANAGE),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: processor(
        get_consumer_list, Lane.CONSUMER_MANAGE, _CONSUMES
    ),
    RequestCode.UPDATE_CONSUMER_OFFSET: processor(
        update_consumer_offset, Lane.CONSUMER_MANAGE, _CONSUMES, _SUBSCRIBES
    ),
    RequestCode.QUERY_CONSUMER_OFFSET: processor(query_consumer_offset, Lane.CONSUMER_MANAGE),
    RequestCode.UPDATE_AND_CREATE_TOPIC: processor(
        update_and_create_topic, Lane.ADMIN, _ADMINISTERS
    ),
    RequestCode.GET_ALL_TOPIC_CONFIG: processor(get_all_topic_config, Lane.ADMIN),
    RequestCode.GET_TOPIC_STATS_INFO: processor(
        get_topic_stats_info, Lane.ADMIN, reads_queues=True
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: processor(
        update_and_create_group, Lane.ADMIN, _ADMINISTERS
    ),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: processor(get_all_groups, Lane.ADMIN),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: processor(get_consumer_connections, Lane.ADMIN),
    RequestCode.UPDATE_BROKER_CONFIG: processor(update_broker_config, Lane.ADMIN, _ADMINISTERS),
    RequestCode.GET_BROKER_CONFIG: processor(get_broker_config, Lane.ADMIN),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: processor(
        search_offset_by_timestamp, Lane.ADMIN, reads_queues=True
    ),
    RequestCode.GET_MAX_OFFSET: processor(get_max_offset, Lane.ADMIN, reads_queues=True),
    RequestCode.GET_MIN_OFFSET: processor(get_min_offset, Lane.ADMIN),
    RequestCode.GET_EARLIEST_MSG_STORETIME: processor(get_earliest_store_time, Lane.ADMIN),
    RequestCode.QUERY_CONSUME_QUEUE: processor(query_consume_queue, Lane.ADMIN, reads_queues=True),
    RequestCode.LOCK_BATCH_MQ: processor(lock_queues, Lane.ADMIN),
    RequestCode.UNLOCK_BATCH_MQ: processor(unlock_queues, Lane.ADMIN),
}

PROCESSORS = {int(code): row for code, row in _ROWS.items()}
"""Every request that a broker handles. A lookup by IntEnum keys would be slower."""

_NAME_SERVER_CODES = """
    PUT_KV_CONFIG GET_KV_CONFIG DELETE_KV_CONFIG GET_KVLIST_BY_NAMESPACE
    REGISTER_BROKER UNREGISTER_BROKER QUERY_DATA_VERSION
    GET_ROUTEINFO_BY_TOPIC GET_BROKER_CLUSTER_INFO DELETE_TOPIC_IN_NAMESRV
    WIPE_WRITE_PERM_OF_BROKER ADD_WRITE_PERM_OF_BROKER
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER GET_TOPICS_BY_CLUSTER GET_SYSTEM_TOPIC_LIST_FROM_NS
    GET_UNIT_TOPIC_LIST GET_HAS_UNIT_SUB_TOPIC_LIST GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST
    UPDATE_NAMESRV_CONFIG GET_NAMESRV_CONFIG
"""

NAME_SERVER_CODES = frozenset(RequestCode[name] for name in _NAME_SERVER_CODES.split())
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
