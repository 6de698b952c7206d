"""The request table of a broker: code to handler, header, lane and access.

A code that is not in the table is answered with code 3. 4.9.3 asks for an admin account for 17, 25,
200, 207 and 215 only.

Source: org.apache.rocketmq.broker.BrokerController.registerProcessor,
org.apache.rocketmq.acl.plain.PlainAccessValidator.parse (4.9.3).
"""

from wakelog.broker.access.rules import (
    CHANGES_ACCOUNTS,
    CONSUMES,
    HEARTBEATS,
    PUBLISHES,
    PUBLISHES_AGAIN,
    RETRIES,
    SUBSCRIBES,
)
from wakelog.broker.decision import Lane
from wakelog.broker.processors import (
    accounts,
    client_calls,
    clients,
    config,
    consume_queue,
    consume_stats,
    groups,
    locks,
    offsets,
    pull,
    query,
    reply,
    send,
    send_back,
    statistics,
    topics,
    transactions,
)
from wakelog.broker.processors.body_limits import HEARTBEAT, MESSAGE, NOT_READ, QUEUES, REPLY
from wakelog.network.request import ADMINISTERS, ADMINISTRATION, ANYONE, processor
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.headers.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendReplyRequestHeader,
    SendReplyRequestHeaderV2,
)
from wakelog.storage.settings_text import settings_named_in

_V1, _V2 = SendMessageRequestHeader, SendMessageRequestHeaderV2

_ROWS = {
    Code.SEND_MESSAGE: processor(
        send.send_message, Lane.SEND, PUBLISHES, header=_V1, is_in_order=True, body=MESSAGE
    ),
    Code.SEND_MESSAGE_V2: processor(
        send.send_message, Lane.SEND, PUBLISHES, header=_V2, is_in_order=True, body=MESSAGE
    ),
    Code.SEND_BATCH_MESSAGE: processor(
        send.send_message, Lane.SEND, ANYONE, header=_V2, is_in_order=True, body=MESSAGE
    ),
    Code.SEND_REPLY_MESSAGE: processor(
        reply.send_reply, Lane.REPLY, ANYONE, header=SendReplyRequestHeader, body=REPLY
    ),
    Code.SEND_REPLY_MESSAGE_V2: processor(
        reply.send_reply, Lane.REPLY, ANYONE, header=SendReplyRequestHeaderV2, body=REPLY
    ),
    Code.CONSUMER_SEND_MSG_BACK: processor(
        send_back.send_back, Lane.SEND, PUBLISHES_AGAIN, RETRIES, body=NOT_READ
    ),
    Code.END_TRANSACTION: processor(
        transactions.end_transaction, Lane.END_TRANSACTION, ANYONE, body=NOT_READ
    ),
    Code.PULL_MESSAGE: processor(
        pull.pull_message, Lane.PULL, SUBSCRIBES, CONSUMES, reads_queues=True, body=NOT_READ
    ),
    Code.QUERY_MESSAGE: processor(
        query.query_message, Lane.QUERY, SUBSCRIBES, reads_queues=True, body=NOT_READ
    ),
    Code.VIEW_MESSAGE_BY_ID: processor(query.view_message_by_id, Lane.QUERY, ANYONE, body=NOT_READ),
    Code.HEART_BEAT: processor(clients.heartbeat, Lane.HEARTBEAT, HEARTBEATS, body=HEARTBEAT),
    Code.UNREGISTER_CLIENT: processor(
        clients.unregister_client, Lane.CLIENT_MANAGE, CONSUMES, body=NOT_READ
    ),
    Code.CHECK_CLIENT_CONFIG: processor(
        clients.check_client_config, Lane.CLIENT_MANAGE, ANYONE, body=ADMINISTRATION
    ),
    Code.REGISTER_FILTER_SERVER: processor(
        clients.register_filter_server, Lane.ADMIN, ADMINISTERS, body=NOT_READ
    ),
    Code.GET_CONSUMER_LIST_BY_GROUP: processor(
        groups.get_consumer_list, Lane.CONSUMER_MANAGE, CONSUMES, body=NOT_READ
    ),
    Code.UPDATE_CONSUMER_OFFSET: processor(
        offsets.update_consumer_offset, Lane.CONSUMER_MANAGE, CONSUMES, SUBSCRIBES, body=NOT_READ
    ),
    Code.QUERY_CONSUMER_OFFSET: processor(
        offsets.query_consumer_offset, Lane.CONSUMER_MANAGE, ANYONE, body=NOT_READ
    ),
    Code.GET_ALL_CONSUMER_OFFSET: processor(
        offsets.get_all_consumer_offset, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.GET_ALL_DELAY_OFFSET: processor(
        offsets.get_all_delay_offset, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.CLONE_GROUP_OFFSET: processor(
        offsets.clone_group_offset, Lane.ADMIN, ADMINISTERS, body=NOT_READ
    ),
    Code.UPDATE_AND_CREATE_TOPIC: processor(
        topics.update_and_create_topic, Lane.ADMIN, ADMINISTERS, body=NOT_READ
    ),
    Code.DELETE_TOPIC_IN_BROKER: processor(
        topics.delete_topic, Lane.ADMIN, ADMINISTERS, body=NOT_READ
    ),
    Code.CLEAN_UNUSED_TOPIC: processor(
        topics.clean_unused_topics, Lane.ADMIN, ADMINISTERS, body=NOT_READ
    ),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: processor(
        topics.clean_expired_queues, Lane.ADMIN, ADMINISTERS, body=NOT_READ
    ),
    Code.GET_ALL_TOPIC_CONFIG: processor(
        topics.get_all_topic_config, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.GET_TOPIC_CONFIG: processor(topics.get_topic_config, Lane.ADMIN, ANYONE, body=NOT_READ),
    Code.GET_TOPIC_STATS_INFO: processor(
        topics.get_topic_stats_info, Lane.ADMIN, ANYONE, reads_queues=True, body=NOT_READ
    ),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: processor(
        groups.update_and_create_group,
        Lane.ADMIN,
        ADMINISTERS,
        body=ADMINISTRATION,
        names_in=groups.group_named_in,
    ),
    Code.DELETE_SUBSCRIPTIONGROUP: processor(
        groups.delete_group, Lane.ADMIN, ADMINISTERS, body=NOT_READ
    ),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: processor(
        groups.get_all_groups, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.GET_CONSUMER_CONNECTION_LIST: processor(
        groups.get_consumer_connections, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.GET_PRODUCER_CONNECTION_LIST: processor(
        groups.get_producer_connections, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: processor(
        groups.get_group, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.GET_ALL_PRODUCER_INFO: processor(
        groups.get_all_producers, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: processor(
        client_calls.reset_offset, Lane.ADMIN, ADMINISTERS, reads_queues=True, body=NOT_READ
    ),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: processor(
        client_calls.get_consumer_status, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.GET_CONSUMER_RUNNING_INFO: processor(
        client_calls.get_consumer_running_info, Lane.ADMIN, ANYONE, body=ADMINISTRATION
    ),
    Code.CONSUME_MESSAGE_DIRECTLY: processor(
        client_calls.consume_message_directly, Lane.ADMIN, ADMINISTERS, body=NOT_READ
    ),
    Code.UPDATE_BROKER_CONFIG: processor(
        config.update_broker_config,
        Lane.ADMIN,
        ADMINISTERS,
        body=ADMINISTRATION,
        names_in=settings_named_in,
    ),
    Code.GET_BROKER_CONFIG: processor(config.get_broker_config, Lane.ADMIN, ANYONE, body=NOT_READ),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: processor(
        offsets.search_offset_by_timestamp, Lane.ADMIN, ANYONE, reads_queues=True, body=NOT_READ
    ),
    Code.GET_MAX_OFFSET: processor(
        offsets.get_max_offset, Lane.ADMIN, ANYONE, reads_queues=True, body=NOT_READ
    ),
    Code.GET_MIN_OFFSET: processor(offsets.get_min_offset, Lane.ADMIN, ANYONE, body=NOT_READ),
    Code.GET_EARLIEST_MSG_STORETIME: processor(
        offsets.get_earliest_store_time, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.QUERY_CONSUME_QUEUE: processor(
        consume_queue.query_consume_queue, Lane.ADMIN, ANYONE, reads_queues=True, body=NOT_READ
    ),
    Code.UPDATE_AND_CREATE_ACL_CONFIG: processor(
        accounts.update_account, Lane.ADMIN, CHANGES_ACCOUNTS, body=NOT_READ
    ),
    Code.DELETE_ACL_CONFIG: processor(
        accounts.delete_account, Lane.ADMIN, CHANGES_ACCOUNTS, body=NOT_READ
    ),
    Code.GET_BROKER_CLUSTER_ACL_INFO: processor(
        accounts.get_versions, Lane.ADMIN, ADMINISTERS, body=NOT_READ, is_audited=False
    ),
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: processor(
        accounts.update_white_addresses, Lane.ADMIN, CHANGES_ACCOUNTS, body=NOT_READ
    ),
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: processor(
        accounts.get_accounts, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.GET_CONSUME_STATS: processor(
        consume_stats.get_consume_stats, Lane.ADMIN, ANYONE, reads_queues=True, body=NOT_READ
    ),
    Code.GET_BROKER_CONSUME_STATS: processor(
        consume_stats.get_broker_consume_stats, Lane.ADMIN, ANYONE, reads_queues=True, body=NOT_READ
    ),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: processor(
        consume_stats.query_consuming_groups, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.QUERY_CONSUME_TIME_SPAN: processor(
        consume_stats.query_consume_time_span, Lane.ADMIN, ANYONE, reads_queues=True, body=NOT_READ
    ),
    Code.QUERY_CORRECTION_OFFSET: processor(
        consume_stats.query_correction_offset, Lane.ADMIN, ANYONE, body=NOT_READ, is_audited=True
    ),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: processor(
        topics.get_system_topics, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.GET_BROKER_RUNTIME_INFO: processor(
        statistics.get_broker_runtime_info, Lane.ADMIN, ANYONE, reads_queues=True, body=NOT_READ
    ),
    Code.VIEW_BROKER_STATS_DATA: processor(
        statistics.view_broker_stats_data, Lane.ADMIN, ANYONE, body=NOT_READ
    ),
    Code.RESUME_CHECK_HALF_MESSAGE: processor(
        transactions.resume_check, Lane.ADMIN, ADMINISTERS, body=NOT_READ
    ),
    Code.LOCK_BATCH_MQ: processor(locks.lock_queues, Lane.ADMIN, ANYONE, body=QUEUES),
    Code.UNLOCK_BATCH_MQ: processor(locks.unlock_queues, Lane.ADMIN, ANYONE, body=QUEUES),
}

PROCESSORS = {int(code): row for code, row in _ROWS.items()}
"""Every request that a broker handles. A lookup by IntEnum keys would be slower."""

IN_ORDER_CODES = frozenset(code for code, row in PROCESSORS.items() if row.is_in_order)
BRINGS_MESSAGES = frozenset(
    code
    for code, row in PROCESSORS.items()
    if row.lane in (Lane.SEND, Lane.REPLY, Lane.END_TRANSACTION)
)
READS_QUEUES = frozenset(code for code, row in PROCESSORS.items() if row.reads_queues)

_NAME_SERVER_CODES = """
    PUT_KV_CONFIG GET_KV_CONFIG DELETE_KV_CONFIG GET_KVLIST_BY_NAMESPACE
    REGISTER_BROKER UNREGISTER_BROKER QUERY_DATA_VERSION
    GET_ROUTEINFO_BY_TOPIC GET_BROKER_CLUSTER_INFO DELETE_TOPIC_IN_NAMESRV
    WIPE_WRITE_PERM_OF_BROKER ADD_WRITE_PERM_OF_BROKER
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER GET_TOPICS_BY_CLUSTER GET_SYSTEM_TOPIC_LIST_FROM_NS
    GET_UNIT_TOPIC_LIST GET_HAS_UNIT_SUB_TOPIC_LIST GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST
    UPDATE_NAMESRV_CONFIG GET_NAMESRV_CONFIG
"""

NAME_SERVER_CODES = frozenset(Code[name] for name in _NAME_SERVER_CODES.split())
"""Codes that only a name server handles. A broker that gets one was mistaken for a name server."""

_NAMES = {int(code): code.name for code in Code}


def unsupported_hint(code: int) -> str:
    """Return what follows 4.9.3's remark for a code without a processor: its name, or where to ask.

    Users of mqadmin see the remark, and a number alone does not name the command.
    """
    if code in NAME_SERVER_CODES:
        return ", ask a name server"
    return f": there is no {_NAMES[code]} here" if code in _NAMES else ""
