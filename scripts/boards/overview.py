"""The first board: is it well, what goes in and out, where does it wait."""

from scripts.boards.grafana import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    MESSAGES_PER_SECOND,
    OF_BROKER,
    OF_INSTANCE,
    RATIO,
    REQUESTS_PER_SECOND,
    SECONDS,
    Board,
    graph,
    quantile,
    rate,
    stat,
    summed,
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
        summed("rocketmq_store_put_messages_total", "in"),
        summed("rocketmq_store_get_messages_total", "out"),
    ),
    graph(
        "Bytes",
        "Bytes of messages stored and handed out in a second.",
        BYTES_PER_SECOND,
        summed("rocketmq_store_put_bytes_total", "in"),
        summed("rocketmq_store_get_bytes_total", "out"),
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
        summed("rocketmq_request_failures_total", "requests"),
        summed("rocketmq_store_put_failures_total", "puts"),
    ),
)

ACCESS = (
    graph(
        "Refused access",
        "Requests in a second that access control refused.",
        REQUESTS_PER_SECOND,
        summed("rocketmq_access_refused_total"),
    ),
    graph(
        "Accounts and certificates",
        "Files of accounts and certificates that were read, or could not be used, in a second.",
        REQUESTS_PER_SECOND,
        summed("rocketmq_access_reloads_total", "accounts"),
        summed("rocketmq_certificate_reads_total", "certificates"),
        summed("rocketmq_certificate_refusals_total", "not usable"),
    ),
)

SCRAPES = (
    graph(
        "Left out of scrapes",
        "Series over the limit of their family in a second, and queues too many to measure.",
        COUNT,
        (
            f"sum by (family) ({rate('rocketmq_metrics_dropped_series_total', OF_INSTANCE)})",
            "{{family}}",
        ),
        (
            f"sum by (kind) (rocketmq_queues_unmeasured{{{OF_BROKER}}})",
            "not measured: {{kind}}",
        ),
    ),
    graph(
        "Certificates",
        "Until when the certificates from files are valid, in seconds from now.",
        SECONDS,
        (
            "min by (broker, role) "
            f"(rocketmq_certificate_expiry_timestamp_seconds{{{OF_BROKER}}}) - time()",
            "{{broker}} {{role}}",
        ),
    ),
)

BOARD = Board(
    name="overview",
    title="wakelog overview",
    sections={
        "Health": HEALTH,
        "Traffic": TRAFFIC,
        "Requests": REQUESTS,
        "Access": ACCESS,
        "Scrapes": SCRAPES,
    },
)
