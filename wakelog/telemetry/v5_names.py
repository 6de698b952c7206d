"""The names of a RocketMQ 5.x broker's own metrics, as Prometheus sees them, for boards of it.

They have the labels that 5.x gives them, with its units in their names. What a store of 4.9.3 does
not keep, or what would cost each message something, is in `LEFT_OUT`, with the reason.

Source: org.apache.rocketmq.broker.metrics.BrokerMetricsManager,
org.apache.rocketmq.store.metrics.DefaultStoreMetricsManager (5.3.3).
"""

from typing import Final

from wakelog.telemetry.metric_spec import BROKER, MetricSpec, counter, gauge

ALL = ("cluster", "node_type", "node_id")
OF_TOPIC = (*ALL, "topic", "message_type", "is_system")
OF_PAIR = (*ALL, "topic", "consumer_group", "is_system")
OF_LAG = (*ALL, "consumer_group", "topic", "is_retry", "is_system")
OF_STORE = (*ALL, "storage_type", "storage_medium")
OF_PRODUCER = (*ALL, "language", "version", "protocol_type")
OF_CONSUMER = (
    *ALL, "consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system",
)  # fmt: skip

_NODE: Final = f"{BROKER}/node_type=broker"
_TRAFFIC: Final = f"{_NODE}/traffic"
_PUT: Final = f"{_NODE}/message_type=unspecified/traffic/put_by_topic"
_STORE: Final = f"{_NODE}/storage_type=local/storage_medium=disk"
_CLIENTS: Final = f"{_NODE}/protocol_type=remoting/members"
_LANES: Final = {
    "send": "send",
    "pull": "pull",
    "query_message": "query",
    "client_manager": "clientManage",
    "heartbeat": "heartbeat",
    "transaction": "endTransaction",
    "consumer_manager": "consumerManage",
    "admin": "admin",
    "reply": "reply",
}
"""What 5.x calls the lanes."""

# fmt: off
V5: Final[tuple[MetricSpec, ...]] = (
    gauge("rocketmq_processor_watermark", "Requests that wait for a processor.",
          *(f"{_NODE}/processor={name}/server/lanes/{lane}/depth_count"
            for name, lane in _LANES.items()), shown=(*ALL, "processor")),
    gauge("rocketmq_topic_number", "Topics.", f"{_NODE}/broker/topics/topic_count", shown=ALL),
    gauge("rocketmq_consumer_group_number", "Consumer groups that are configured.",
          f"{_NODE}/broker/groups/group_count", shown=ALL),
    counter("rocketmq_messages_in", "Messages stored.", _PUT + "/{topic}/0", shown=OF_TOPIC),
    counter("rocketmq_throughput_in", "Bytes stored.", _PUT + "/{topic}/1", shown=OF_TOPIC),
    counter("rocketmq_messages_out", "Messages handed out.",
            _TRAFFIC + "/get_by_topic_and_group/{topic}/{consumer_group}/0", shown=OF_PAIR),
    counter("rocketmq_throughput_out", "Bytes handed out.",
            _TRAFFIC + "/get_by_topic_and_group/{topic}/{consumer_group}/1", shown=OF_PAIR),
    gauge("rocketmq_producer_connections", "Connections that produce.",
          _CLIENTS + "/producer_connections/{language}/{version}", shown=OF_PRODUCER),
    gauge("rocketmq_consumer_connections", "Connections that consume.",
          _CLIENTS + "/consumer_connections/{consumer_group}/{consume_mode}/{language}/{version}",
          shown=OF_CONSUMER),
    gauge("rocketmq_consumer_lag_messages", "Messages that a group has not consumed.",
          _NODE + "/queues/lag/{consumer_group}/{topic}/*", shown=OF_LAG),
    gauge("rocketmq_consumer_lag_latency_milliseconds",
          "How long ago the oldest message was stored that a group has not consumed.",
          _NODE + "/queues/oldest_seconds/{consumer_group}/{topic}", scale=1000, shown=OF_LAG),
    counter("rocketmq_send_to_dlq_messages", "Messages that a group has given up.",
            _NODE + "/topic=/traffic/put_by_topic/%DLQ%{consumer_group}/0",
            shown=OF_PAIR),
    counter("rocketmq_commit_messages", "Half messages that were committed.",
            f"{_NODE}/broker/transactions/committed_count", shown=ALL),
    counter("rocketmq_rollback_messages", "Half messages that were rolled back.",
            f"{_NODE}/broker/transactions/rolled_back_count", shown=ALL),
    gauge("rocketmq_storage_size_bytes", "Bytes of the log.",
          f"{_STORE}/store/max_physical_offset", minus=f"{_STORE}/store/min_physical_offset",
          shown=OF_STORE),
    gauge("rocketmq_storage_flush_behind_bytes", "Bytes that are not durable yet.",
          f"{_STORE}/watermarks/appended", minus=f"{_STORE}/watermarks/flushed", shown=OF_STORE),
    gauge("rocketmq_storage_dispatch_behind_bytes", "Bytes of the log that are not dispatched.",
          f"{_STORE}/watermarks/readable", minus=f"{_STORE}/watermarks/dispatched",
          shown=OF_STORE),
    gauge("rocketmq_storage_message_reserve_time_milliseconds",
          "How long ago the oldest message was stored.",
          f"{_STORE}/runtime/reserved_ms", shown=OF_STORE),
)
# fmt: on

_NOT_COUNTED: Final = "no message is measured one by one"
_NOT_KEPT: Final = "4.9.3 does not know how far a group has pulled, only what it has committed"
_NO_TIMER: Final = "4.9.3 has delay levels only: `rocketmq_delayed_messages_delivered_total`"

LEFT_OUT: Final[dict[str, str]] = {
    "rocketmq_broker_permission": "`wakelog admin getBrokerConfig` shows `brokerPermission`",
    "rocketmq_message_size": _NOT_COUNTED,
    "rocketmq_rpc_latency_milliseconds": (
        "no request is measured one by one: `rocketmq_put_duration_seconds` is by turn"
    ),
    "rocketmq_topic_create_execution_time_milliseconds": _NOT_COUNTED,
    "rocketmq_consumer_group_create_execution_time_milliseconds": _NOT_COUNTED,
    "rocketmq_finish_message_latency_milliseconds": _NOT_COUNTED,
    "rocketmq_half_messages": "half messages are not counted by topic",
    "rocketmq_consumer_inflight_messages": _NOT_KEPT,
    "rocketmq_consumer_ready_messages": _NOT_KEPT,
    "rocketmq_consumer_queueing_latency_milliseconds": _NOT_KEPT,
    "rocketmq_timer_enqueue_lag": _NO_TIMER,
    "rocketmq_timer_dequeue_lag": _NO_TIMER,
    "rocketmq_timing_messages": _NO_TIMER,
    "rocketmq_delay_message_latency_seconds": _NO_TIMER,
}
"""Families of 5.x that are not here, and why; those of what 4.9.3 lacks altogether, such as POP,
proxies and tiered storage, are not named."""
