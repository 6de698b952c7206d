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
    graph(
        "Store failures",
        "Work of the store that failed in a second, and is tried again.",
        REQUESTS_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_commit_failures_total')})", "{{broker}} commit"),
        (f"sum by (broker) ({rate('rocketmq_dispatch_failures_total')})", "{{broker}} dispatch"),
        (f"sum by (broker) ({rate('rocketmq_segment_failures_total')})", "{{broker}} segment"),
        (f"sum by (broker) ({rate('rocketmq_log_sum_failures_total')})", "{{broker}} sums"),
        (
            f"sum by (broker) ({rate('rocketmq_flush_waits_timed_out_total')})",
            "{{broker}} flush too late",
        ),
        (
            f"sum by (broker) ({rate('rocketmq_leases_refused_total')})",
            "{{broker}} snapshot refused",
        ),
    ),
    graph(
        "Transient pool",
        "Bytes copied from the pool to the log in a second, by Commit and by the broker.",
        BYTES_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_committed_bytes_total')})", "{{broker}}"),
    ),
)

REPLICAS = (
    graph(
        "Masters",
        "Replicas that take messages: 1 for each group at any time.",
        COUNT,
        (f"max by (broker) (rocketmq_leads{{{OF_BROKER}}})", "{{broker}}"),
    ),
    graph(
        "Epoch",
        "The epoch of each master, which grows with each election; 0 on a follower.",
        COUNT,
        (f"max by (broker) (rocketmq_election_epoch{{{OF_BROKER}}})", "{{broker}}"),
    ),
    graph(
        "In sync",
        "Replicas that a message waits for, and followers and slaves that are connected.",
        COUNT,
        (f"sum by (broker) (rocketmq_in_sync_replicas{{{OF_BROKER}}})", "{{broker}} in sync"),
        (f"sum by (broker) (rocketmq_members{{{OF_BROKER}}})", "{{broker}} followers"),
        (f"sum by (broker) (rocketmq_slaves{{{OF_BROKER}}})", "{{broker}} slaves"),
        (f"sum by (broker) (rocketmq_following{{{OF_BROKER}}})", "{{broker}} follows as a slave"),
    ),
    graph(
        "Behind the master",
        "Bytes of the log that the slowest follower, or slave, has not acknowledged.",
        BYTES,
        (f"max by (broker) (rocketmq_member_behind_bytes{{{OF_BROKER}}})", "{{broker}} follower"),
        (f"max by (broker) (rocketmq_slave_behind_bytes{{{OF_BROKER}}})", "{{broker}} slave"),
    ),
    graph(
        "Copied",
        "Bytes sent to slaves, and received from masters, in a second.",
        BYTES_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_slave_sent_bytes_total')})", "{{broker}} sent"),
        (f"sum by (broker) ({rate('rocketmq_followed_bytes_total')})", "{{broker}} received"),
    ),
    graph(
        "Elections",
        "Changes of role, cuts of the log, and register calls without an answer, in a second.",
        REQUESTS_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_leader_changes_total')})", "{{broker}} role"),
        (f"sum by (broker) ({rate('rocketmq_log_cuts_total')})", "{{broker}} cut"),
        (
            f"sum by (broker) ({rate('rocketmq_register_calls_failed_total')})",
            "{{broker}} register",
        ),
    ),
    graph(
        "Waiting for replicas",
        "Answers to sends that wait for a follower or a slave.",
        COUNT,
        (f"sum by (broker) (rocketmq_replica_waiting_answers{{{OF_BROKER}}})", "{{broker}}"),
    ),
    graph(
        "Refused replicas",
        "Connections of replicas refused, and waits for them that were too long, in a second.",
        REQUESTS_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_members_refused_total')})", "{{broker}} follower"),
        (f"sum by (broker) ({rate('rocketmq_slaves_refused_total')})", "{{broker}} slave"),
        (
            f"sum by (broker) ({rate('rocketmq_replica_waits_timed_out_total')})",
            "{{broker}} too long",
        ),
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
        (
            f"sum by (broker) ({rate('rocketmq_delayed_messages_undeliverable_total')})",
            "{{broker}} undeliverable",
        ),
    ),
)

TRANSACTIONS = (
    graph(
        "Half messages",
        "Half messages stored, committed and rolled back in a second.",
        MESSAGES_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_transactions_prepared_total')})", "{{broker}} stored"),
        (
            f"sum by (broker) ({rate('rocketmq_transactions_committed_total')})",
            "{{broker}} committed",
        ),
        (
            f"sum by (broker) ({rate('rocketmq_transactions_rolled_back_total')})",
            "{{broker}} rolled back",
        ),
    ),
    graph(
        "Checks",
        "Questions to producers about half messages in a second, and what was given up.",
        MESSAGES_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_transactions_checked_total')})", "{{broker}} asked"),
        (
            f"sum by (broker) ({rate('rocketmq_transactions_unanswerable_total')})",
            "{{broker}} no producer",
        ),
        (
            f"sum by (broker) ({rate('rocketmq_transactions_discarded_total')})",
            "{{broker}} given up",
        ),
    ),
)

ACCESS = (
    graph(
        "Refused access",
        "Requests in a second that access control refused.",
        REQUESTS_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_access_refused_total')})", "{{broker}}"),
    ),
    graph(
        "Accounts and certificates",
        "Files of accounts and certificates that were read, or could not be used, in a second.",
        REQUESTS_PER_SECOND,
        (f"sum by (broker) ({rate('rocketmq_access_reloads_total')})", "{{broker}} accounts"),
        (
            f"sum by (broker) ({rate('rocketmq_certificate_reads_total')})",
            "{{broker}} certificates",
        ),
        (
            f"sum by (broker) ({rate('rocketmq_certificate_refusals_total')})",
            "{{broker}} not usable",
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
    graph(
        "Trouble",
        "Parts of a broker that do not do their work, and why.",
        COUNT,
        (
            f"max by (broker, actor, reason) (rocketmq_actor_trouble{{{OF_BROKER}}})",
            "{{broker}} {{actor}}: {{reason}}",
        ),
    ),
    graph(
        "Started again",
        "Processes that had died, and that hung and were killed, in a second.",
        REQUESTS_PER_SECOND,
        (f"sum({rate('rocketmq_actor_restarts_total', OF_INSTANCE)})", "died"),
        (f"sum({rate('rocketmq_actor_kills_total', OF_INSTANCE)})", "hung"),
    ),
    graph(
        "Plug-ins",
        "Batches given to added dispatchers, and failures of them and of services, in a second.",
        REQUESTS_PER_SECOND,
        (
            f"sum by (broker, dispatcher) ({rate('rocketmq_plugin_batches_total')})",
            "{{broker}} {{dispatcher}}",
        ),
        (
            f"sum by (broker, dispatcher) ({rate('rocketmq_plugin_failures_total')})",
            "{{broker}} {{dispatcher}} failed",
        ),
        (
            f"sum by (broker, service) ({rate('rocketmq_service_failures_total')})",
            "{{broker}} {{service}} failed",
        ),
    ),
)

SECTIONS: dict[str, tuple[Panel, ...]] = {
    "Health": HEALTH,
    "Traffic": TRAFFIC,
    "Requests": REQUESTS,
    "Store": STORE,
    "Replicas": REPLICAS,
    "Consumers": CONSUMERS,
    "Transactions": TRANSACTIONS,
    "Access": ACCESS,
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
