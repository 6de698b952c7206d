"""Request code to processor and lane: the table that ``broker.Broker`` dispatches by.

Codes that are not here are answered with code 3.

Source: org.apache.rocketmq.broker.BrokerController.registerProcessor (4.9.3).
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from wakelog.broker.decision import Channel, Lane, Outcome
from wakelog.broker.processors.admin_config import get_broker_config, update_broker_config
from wakelog.broker.processors.admin_groups import (
    get_all_groups,
    get_consumer_connections,
    update_and_create_group,
)
from wakelog.broker.processors.admin_locks import lock_queues, unlock_queues
from wakelog.broker.processors.admin_offsets import (
    get_earliest_store_time,
    get_max_offset,
    get_min_offset,
    query_consume_queue,
    search_offset_by_timestamp,
)
from wakelog.broker.processors.admin_topics import (
    get_all_topic_config,
    get_topic_stats_info,
    update_and_create_topic,
)
from wakelog.broker.processors.client_manage import (
    check_client_config,
    heartbeat,
    unregister_client,
)
from wakelog.broker.processors.consumer_manage import (
    get_consumer_list,
    query_consumer_offset,
    update_consumer_offset,
)
from wakelog.broker.processors.pull import pull_message
from wakelog.broker.processors.query import query_message, view_message_by_id
from wakelog.broker.processors.send import send_message, send_message_v2
from wakelog.broker.processors.send_back import send_back
from wakelog.broker.state import BrokerState
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand

Handle: TypeAlias = Callable[[BrokerState, RemotingCommand, Channel, int], Outcome]


class Processor(NamedTuple):
    """Who answers a request, in which lane it waits, and whether it shows what queues hold."""

    handle: Handle
    lane: Lane
    looks_at_queues: bool = False


PROCESSORS: dict[int, Processor] = {
    RequestCode.SEND_MESSAGE: Processor(send_message, Lane.SEND),
    RequestCode.SEND_MESSAGE_V2: Processor(send_message_v2, Lane.SEND),
    RequestCode.SEND_BATCH_MESSAGE: Processor(send_message_v2, Lane.SEND),
    RequestCode.CONSUMER_SEND_MSG_BACK: Processor(send_back, Lane.SEND),
    RequestCode.PULL_MESSAGE: Processor(pull_message, Lane.PULL, looks_at_queues=True),
    RequestCode.QUERY_MESSAGE: Processor(query_message, Lane.QUERY, looks_at_queues=True),
    RequestCode.VIEW_MESSAGE_BY_ID: Processor(view_message_by_id, Lane.QUERY),
    RequestCode.HEART_BEAT: Processor(heartbeat, Lane.HEARTBEAT),
    RequestCode.UNREGISTER_CLIENT: Processor(unregister_client, Lane.CLIENT_MANAGE),
    RequestCode.CHECK_CLIENT_CONFIG: Processor(check_client_config, Lane.CLIENT_MANAGE),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: Processor(get_consumer_list, Lane.CONSUMER_MANAGE),
    RequestCode.UPDATE_CONSUMER_OFFSET: Processor(update_consumer_offset, Lane.CONSUMER_MANAGE),
    RequestCode.QUERY_CONSUMER_OFFSET: Processor(query_consumer_offset, Lane.CONSUMER_MANAGE),
    RequestCode.UPDATE_AND_CREATE_TOPIC: Processor(update_and_create_topic, Lane.ADMIN),
    RequestCode.GET_ALL_TOPIC_CONFIG: Processor(get_all_topic_config, Lane.ADMIN),
    RequestCode.GET_TOPIC_STATS_INFO: Processor(
        get_topic_stats_info, Lane.ADMIN, looks_at_queues=True
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Processor(update_and_create_group, Lane.ADMIN),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Processor(get_all_groups, Lane.ADMIN),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: Processor(get_consumer_connections, Lane.ADMIN),
    RequestCode.UPDATE_BROKER_CONFIG: Processor(update_broker_config, Lane.ADMIN),
    RequestCode.GET_BROKER_CONFIG: Processor(get_broker_config, Lane.ADMIN),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Processor(
        search_offset_by_timestamp, Lane.ADMIN, looks_at_queues=True
    ),
    RequestCode.GET_MAX_OFFSET: Processor(get_max_offset, Lane.ADMIN, looks_at_queues=True),
    RequestCode.GET_MIN_OFFSET: Processor(get_min_offset, Lane.ADMIN),
    RequestCode.GET_EARLIEST_MSG_STORETIME: Processor(get_earliest_store_time, Lane.ADMIN),
    RequestCode.QUERY_CONSUME_QUEUE: Processor(
        query_consume_queue, Lane.ADMIN, looks_at_queues=True
    ),
    RequestCode.LOCK_BATCH_MQ: Processor(lock_queues, Lane.ADMIN),
    RequestCode.UNLOCK_BATCH_MQ: Processor(unlock_queues, Lane.ADMIN),
}
"""Every request a broker answers."""

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
"""Codes that only a name server answers; whoever asks a broker has mixed up two addresses."""

_NAMES = {int(code): code.name for code in RequestCode}


def unsupported_remark(code: int) -> str:
    """Return 4.9.3's remark for a code that has no processor, and what that is or where to ask.

    Users of mqadmin see the remark, and no number says to them what they asked for.
    """
    remark = f" request type {code} not supported"
    if code in NAME_SERVER_CODES:
        return f"{remark}, ask a name server"
    return f"{remark}: there is no {_NAMES[code]} here" if code in _NAMES else remark
