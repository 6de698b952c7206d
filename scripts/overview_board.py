"""The first board: is it well, what goes in and out, where does it wait.

`./dev docs` writes it to dashboards/overview.json.
"""

from scripts.grafana import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    MESSAGES_PER_SECOND,
    OF_BROKER,
    OF_INSTANCE,
    RATIO,
    REQUESTS_PER_SECOND,
    SECONDS,
    Panel,
    board_json,
    graph,
    quantile,
    rate,
    stat,
)

HEALTH = (
    stat(
        "Messages in",
        "Messages stored in a second, by all brokers that are shown.",
        MESSAGES_PER_SECOND,
        f"sum({rate('rocketmq_store_put_messages_total')})",
    ),
    stat(
        "Messages out",
        "Messages handed to consumers in a second, by all brokers that are shown.",
        MESSAGES_PER_SECOND,
        f"sum({rate('rocketmq_store_get_messages_total')})",
    ),
    stat(
        "Dispatch lag",
        "Bytes of the log that no consumer can see yet, at the broker that is furthest behind.",
        BYTES,
        f"max(rocketmq_dispatch_lag_bytes{{{OF_BROKER}}})",
    ),
    stat(
        "Disk used",
        "Used part of the fullest disk of a store. Above 0.9 a broker takes no more messages.",
        RATIO,
        f"max(rocketmq_disk_used_ratio{{{OF_BROKER}}})",
    ),
    stat(
        "Connections",
        "Open connections of clients.",
        COUNT,
        f'sum(rocketmq_connections{{{OF_BROKER},role="broker"}})',
    ),
    stat(
        "Actors away",
        "Actors that do not work for their broker right now. They come back within seconds.",
        COUNT,
        f"sum(1 - rocketmq_actor_attached{{{OF_BROKER}}})",
    ),
    stat(
        "Brokers in the route",
        "Broker names that the name server tells clients.",
        COUNT,
        f"max(rocketmq_nameserver_brokers{{{OF_INSTANCE}}})",
    ),
    stat(
        "Versions",
        "How many deployments are shown, by version.",
        COUNT,
        f"count by (version) (rocketmq_build_info{{{OF_INSTANCE}}})",
        "{{version}}",
    ),
)

TRAFFIC = (
    graph(
        "Messages",
        "Messages stored and handed out in a second.",
        MESSAGES_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_store_put_messages_total')})", "{{broker}} in"),
        (f"sum by (broker) ({rate('rocketmq_store_get_messages_total')})", "{{broker}} out"),
    ),
    graph(
        "Bytes",
        "Bytes of messages stored and handed out in a second.",
        BYTES_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_store_put_bytes_total')})", "{{broker}} in"),
        (f"sum by (broker) ({rate('rocketmq_store_get_bytes_total')})", "{{broker}} out"),
    ),
    graph(
        "Busiest topics",
        "The ten topics with the most messages stored in a second.",
        MESSAGES_PER_SECOND,
        (f"topk(10, sum by (topic) ({rate('rocketmq_topic_put_messages_total')}))", "{{topic}}"),
    ),
    graph(
        "Busiest groups",
        "The ten consumer groups and topics with the most messages handed out in a second.",
        MESSAGES_PER_SECOND,
        (
            f"topk(10, sum by (group, topic) ({rate('rocketmq_group_get_messages_total')}))",
            "{{group}} of {{topic}}",
        ),
    ),
)

REQUESTS = (
    graph(
        "Requests",
        "Requests processed in a second, by the lane in which they waited.",
        REQUESTS_PER_SECOND,
        (f"sum by (lane) ({rate('rocketmq_lane_requests_total')})", "{{lane}}"),
    ),
    graph(
        "Wait",
        "How long the oldest request of a lane has waited.",
        SECONDS,
        (f"max by (lane) (rocketmq_lane_head_wait_seconds{{{OF_BROKER}}})", "{{lane}}"),
    ),
    graph(
        "Refused",
        "Requests refused in a second, because a lane was full or they had waited too long.",
        REQUESTS_PER_SECOND,
        (f"sum by (lane) ({rate('rocketmq_lane_refused_requests_total')})", "{{lane}} full"),
        (f"sum by (lane) ({rate('rocketmq_lane_expired_requests_total')})", "{{lane}} too late"),
        (f"sum({rate('rocketmq_pool_refused_requests_total')})", "pool full"),
    ),
    graph(
        "Loop",
        "Part of the time that a broker's loop spends on requests. At 1 it can take no more.",
        RATIO,
        (f"max by (broker) ({rate('rocketmq_turn_busy_seconds_total')})", "{{broker}}"),
    ),
    graph(
        "Loop lag",
        "How late a broker's loop was at its last probe. Clients wait at least that long.",
        SECONDS,
        (f"max by (broker) (rocketmq_loop_lag_seconds{{{OF_BROKER}}})", "{{broker}}"),
    ),
    graph(
        "Put and get time",
        "How long 99 in 100 puts and gets took at most, their wait in a lane not included.",
        SECONDS,
        (quantile(0.99, "rocketmq_put_duration_seconds"), "{{broker}} put"),
        (quantile(0.99, "rocketmq_get_duration_seconds"), "{{broker}} get"),
    ),
    graph(
        "Failures",
        "Requests that ended in an exception and messages that were not stored, in a second.",
        REQUESTS_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_request_failures_total')})", "{{broker}} requests"),
        (f"sum by (broker) ({rate('rocketmq_store_put_failures_total')})", "{{broker}} puts"),
    ),
)

STORE = (
    graph(
        "Behind the log's end",
        "Bytes of the log that are not in the queues, or not on the disk yet.",
        BYTES,
        (
            f"max by (broker, dispatcher) (rocketmq_dispatch_lag_bytes{{{OF_BROKER}}})",
            "{{broker}} dispatch {{dispatcher}}",
        ),
        (f"max by (broker) (rocketmq_flush_lag_bytes{{{OF_BROKER}}})", "{{broker}} flush"),
    ),
    graph(
        "Dispatched",
        "Messages dispatched in a second, and those of them that the bulk scan took.",
        MESSAGES_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_dispatched_messages_total')})", "{{broker}} all"),
        (f"sum by (broker) ({rate('rocketmq_dispatched_bulk_messages_total')})", "{{broker}} bulk"),
    ),
    graph(
        "Syncs",
        "Syncs of the log in a second: by Flush, and by the broker while Flush was away.",
        COUNT,
        (f"sum by (broker) ({rate('rocketmq_flushes_total')})", "{{broker}} Flush"),
        (f"sum by (broker) ({rate('rocketmq_flushes_inline_total')})", "{{broker}} itself"),
    ),
    graph(
        "Sync time",
        "How long 99 in 100, and half of the syncs of the log took at most.",
        SECONDS,
        (quantile(0.99, "rocketmq_flush_duration_seconds"), "{{broker}} 99 %"),
        (quantile(0.5, "rocketmq_flush_duration_seconds"), "{{broker}} 50 %"),
    ),
    graph(
        "Dispatch time",
        "How long 99 in 100, and half of the steps of dispatch took at most.",
        SECONDS,
        (quantile(0.99, "rocketmq_dispatch_duration_seconds"), "{{broker}} 99 %"),
        (quantile(0.5, "rocketmq_dispatch_duration_seconds"), "{{broker}} 50 %"),
    ),
    graph(
        "Disks",
        "Used part of the disk under the log and under the queues.",
        RATIO,
        (f"max by (broker, path) (rocketmq_disk_used_ratio{{{OF_BROKER}}})", "{{broker}} {{path}}"),
    ),
    graph(
        "Cold reads",
        "Reads of a queue in a second that had to wait for the disk.",
        REQUESTS_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_store_gets_cold_total')})", "{{broker}}"),
    ),
    graph(
        "Segments",
        "Segments taken into use, made by the broker itself, and removed, in the time shown.",
        COUNT,
        (f"sum by (broker) (rocketmq_segments_taken_total{{{OF_BROKER}}})", "{{broker}} taken"),
        (
            f"sum by (broker) (rocketmq_segments_made_inline_total{{{OF_BROKER}}})",
            "{{broker}} made itself",
        ),
        (f"sum by (broker) (rocketmq_segments_removed_total{{{OF_BROKER}}})", "{{broker}} removed"),
    ),
)

CONSUMERS = (
    graph(
        "Lag",
        "Messages not consumed, of the ten groups and topics with the most.",
        COUNT,
        (
            "topk(10, sum by (group, topic) "
            f"(rocketmq_consumer_queue_lag_messages{{{OF_BROKER}}}))",
            "{{group}} of {{topic}}",
        ),
    ),
    graph(
        "Age of the lag",
        "How long ago the oldest message was stored that a group has not consumed, the worst ten.",
        SECONDS,
        (
            "topk(10, max by (group, topic) "
            f"(rocketmq_consumer_oldest_unacked_seconds{{{OF_BROKER}}}))",
            "{{group}} of {{topic}}",
        ),
    ),
    graph(
        "Ends of queues",
        "Messages that the ten longest topics have ever taken, and queues too many to measure.",
        COUNT,
        (f"topk(10, sum by (topic) (rocketmq_queue_max_offset{{{OF_BROKER}}}))", "{{topic}}"),
        (
            f"sum by (kind) (rocketmq_queues_unmeasured{{{OF_BROKER}}})",
            "not measured: {{kind}}",
        ),
    ),
    graph(
        "Long polling",
        "Pulls that wait for a message.",
        COUNT,
        (f"sum by (broker) (rocketmq_longpoll_held_requests{{{OF_BROKER}}})", "{{broker}}"),
    ),
    graph(
        "Wakes",
        "Waiting pulls that were run again in a second, for a message or at their deadline.",
        REQUESTS_PER_SECOND,
        (f"sum by (cause) ({rate('rocketmq_longpoll_wakes_total')})", "{{cause}}"),
    ),
    graph(
        "Clients",
        "Connections that consume, and that produce.",
        COUNT,
        (f"sum by (broker) (rocketmq_consumer_clients{{{OF_BROKER}}})", "{{broker}} consumers"),
        (f"sum by (broker) (rocketmq_producer_clients{{{OF_BROKER}}})", "{{broker}} producers"),
    ),
    graph(
        "Tried again",
        "Messages that groups sent back in a second, and delayed messages that were delivered.",
        MESSAGES_PER_SECOND,
        (
            f"sum by (group) ({rate('rocketmq_group_send_back_messages_total')})",
            "{{group}} sent back",
        ),
        (
            f"sum by (broker) ({rate('rocketmq_delayed_messages_delivered_total')})",
            "{{broker}} delivered",
        ),
    ),
)

ACTORS = (
    graph(
        "References",
        "Object references that crossed between actors in a second, by what they were for.",
        REQUESTS_PER_SECOND,
        (f"sum by (kind) ({rate('rocketmq_actor_references_total')})", "{{kind}}"),
    ),
    graph(
        "Notifications",
        "Notifications that brokers sent in a second, by outcome. None with references only.",
        REQUESTS_PER_SECOND,
        (f"sum by (outcome) ({rate('rocketmq_actor_notifications_total')})", "{{outcome}}"),
    ),
    graph(
        "Attaches",
        "How often an actor began to work for its broker. Each step is a restart of one of them.",
        COUNT,
        (
            f"sum by (broker, actor) (rocketmq_actor_attaches_total{{{OF_BROKER}}})",
            "{{broker}} {{actor}}",
        ),
    ),
    graph(
        "Routes",
        "Registrations in a second that a name server took, and that it did not take.",
        REQUESTS_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_registrations_total')})", "{{broker}} taken"),
        (f"sum by (broker) ({rate('rocketmq_registration_failures_total')})", "{{broker}} failed"),
    ),
    graph(
        "Tables",
        "Files of consumer offsets, topics and groups written in a second, or not written.",
        COUNT,
        (f"sum by (broker) ({rate('rocketmq_table_saves_total')})", "{{broker}} written"),
        (f"sum by (broker) ({rate('rocketmq_table_save_failures_total')})", "{{broker}} failed"),
    ),
)

SECTIONS: dict[str, tuple[Panel, ...]] = {
    "Health": HEALTH,
    "Traffic": TRAFFIC,
    "Requests": REQUESTS,
    "Store": STORE,
    "Consumers": CONSUMERS,
    "Actors": ACTORS,
}


def overview_board() -> str:
    """Return the board as Grafana imports it."""
    return board_json(
        uid="wakelog-overview",
        title="wakelog overview",
        source="scripts/overview_board.py",
        sections=SECTIONS,
    )
