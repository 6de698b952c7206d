"""Replication: which replicas lead, are in sync, or lag."""

from scripts.boards.grafana import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    OF_BROKER,
    REQUESTS_PER_SECOND,
    Board,
    graph,
    summed,
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
        summed("rocketmq_slave_sent_bytes_total", "sent"),
        summed("rocketmq_followed_bytes_total", "received"),
    ),
    graph(
        "Elections",
        "Changes of role, cuts of the log, and register calls without an answer, in a second.",
        REQUESTS_PER_SECOND,
        summed("rocketmq_leader_changes_total", "role"),
        summed("rocketmq_log_cuts_total", "cut"),
        summed("rocketmq_register_calls_failed_total", "register"),
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
        summed("rocketmq_members_refused_total", "follower"),
        summed("rocketmq_slaves_refused_total", "slave"),
        summed("rocketmq_replica_waits_timed_out_total", "too long"),
    ),
)

CONFIRMED = (
    graph(
        "Confirmed",
        "Bytes a second that all in-sync replicas have got.",
        BYTES_PER_SECOND,
        (
            f"max by (broker) (deriv(rocketmq_confirmed_bytes{{{OF_BROKER}}}[$__rate_interval]))",
            "{{broker}}",
        ),
    ),
    graph(
        "Tables copied",
        "Tables that slaves took over from their masters in a second.",
        COUNT,
        summed("rocketmq_tables_copied_total"),
    ),
    graph(
        "Roles",
        "Brokers by role.",
        COUNT,
        (f"count by (role) (rocketmq_broker_info{{{OF_BROKER}}})", "{{role}}"),
    ),
)

BOARD = Board(
    name="replication",
    title="wakelog replication",
    sections={"Replicas": REPLICAS, "Confirmed": CONFIRMED},
)
