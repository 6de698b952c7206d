"""Topics and consumers: lags, what is tried again, and transactions."""

from scripts.boards.grafana import (
    BYTES_PER_SECOND,
    COUNT,
    MESSAGES_PER_SECOND,
    OF_BROKER,
    REQUESTS_PER_SECOND,
    SECONDS,
    Board,
    graph,
    rate,
    summed,
)

TOPICS_AND_GROUPS = (
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
        summed("rocketmq_delayed_messages_delivered_total", "delivered"),
        summed("rocketmq_delayed_messages_undeliverable_total", "undeliverable"),
    ),
)

CATCHING_UP = (
    graph(
        "Time to catch up",
        "When a group will have consumed everything, the slowest ten that do.",
        SECONDS,
        (
            "topk(10, max by (group, topic) "
            f"(rocketmq_consumer_catch_up_seconds{{{OF_BROKER}}} < +Inf))",
            "{{group}} of {{topic}}",
        ),
    ),
    graph(
        "Lag by queue",
        "Messages not consumed, of the ten queues with the most.",
        COUNT,
        (
            "topk(10, max by (group, topic, queue_id) "
            f"(rocketmq_consumer_queue_lag_messages{{{OF_BROKER}}}))",
            "{{group}} of {{topic}} {{queue_id}}",
        ),
    ),
    graph(
        "Commits",
        "Offsets committed in a second, and those below the one before.",
        REQUESTS_PER_SECOND,
        summed("rocketmq_offset_commits_total", "all"),
        summed("rocketmq_offset_commits_backward_total", "backward"),
    ),
    graph(
        "Groups and topics",
        "Topics, groups that are configured, and groups with a client.",
        COUNT,
        (f"sum by (broker) (rocketmq_topics{{{OF_BROKER}}})", "{{broker}} topics"),
        (f"sum by (broker) (rocketmq_subscription_groups{{{OF_BROKER}}})", "{{broker}} groups"),
        (f"sum by (broker) (rocketmq_consumer_groups{{{OF_BROKER}}})", "{{broker}} consume"),
        (f"sum by (broker) (rocketmq_producer_groups{{{OF_BROKER}}})", "{{broker}} produce"),
    ),
    graph(
        "Bytes by topic",
        "Bytes stored in a second, of the ten topics with the most.",
        BYTES_PER_SECOND,
        (f"topk(10, sum by (topic) ({rate('rocketmq_topic_put_bytes_total')}))", "{{topic}}"),
    ),
    graph(
        "Bytes by group",
        "Bytes handed out in a second, of the ten groups and topics with the most.",
        BYTES_PER_SECOND,
        (
            f"topk(10, sum by (group, topic) ({rate('rocketmq_group_get_bytes_total')}))",
            "{{group}} of {{topic}}",
        ),
    ),
)

TRANSACTIONS = (
    graph(
        "Half messages",
        "Half messages stored, committed and rolled back in a second.",
        MESSAGES_PER_SECOND,
        summed("rocketmq_transactions_prepared_total", "stored"),
        summed("rocketmq_transactions_committed_total", "committed"),
        summed("rocketmq_transactions_rolled_back_total", "rolled back"),
    ),
    graph(
        "Checks",
        "Questions to producers about half messages in a second, and what was given up.",
        MESSAGES_PER_SECOND,
        summed("rocketmq_transactions_checked_total", "asked"),
        summed("rocketmq_transactions_unanswerable_total", "no producer"),
        summed("rocketmq_transactions_discarded_total", "given up"),
    ),
)

BOARD = Board(
    name="consumers",
    title="wakelog topics and consumers",
    sections={
        "Topics and groups": TOPICS_AND_GROUPS,
        "Catching up": CATCHING_UP,
        "Transactions": TRANSACTIONS,
    },
)
