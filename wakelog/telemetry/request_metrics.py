"""Metrics of requests: connections, lanes, turns, traffic by topic and group, members, routes.

What brokers and the name server both have carries the label ``role``; the name server's ``broker``
is empty.
"""

from wakelog.telemetry.metric_spec import BROKER, NAME_SERVER, counter, gauge

SERVERS = (
    f"role=broker/{BROKER}/server",
    f"role=nameserver/broker=/{NAME_SERVER}/server",
)

# A slave stores nothing: Reput counts what it finds in the log that was copied.
PUTS_OF_SLAVE = f"{BROKER}/services/reput/puts_by_topic"


def of_servers(path: str) -> list[str]:
    """Return the paths of a value that brokers and the name server both have in their server."""
    return [f"{server}/{path}" for server in SERVERS]


# fmt: off
CONNECTIONS = (
    gauge("rocketmq_connections", "Open client connections.",
          *of_servers("connections/open_count")),
    gauge("rocketmq_connections_max", "Connections above which new ones are closed at once.",
          *of_servers("connections/connections_max")),
    counter("rocketmq_connections_accepted", "Connections accepted, those closed at once included.",
            *of_servers("connections/accepted_count")),
    counter("rocketmq_connections_closed", "Connections that ended, by reason.",
            *of_servers("connections/closed_count/{reason}")),
)

LANES = (
    gauge("rocketmq_lane_waiting_requests", "Requests that wait in a lane.",
          *of_servers("lanes/{lane}/depth_count")),
    gauge("rocketmq_lane_capacity_requests", "Requests that a lane holds before it refuses.",
          *of_servers("lanes/{lane}/capacity_count")),
    gauge("rocketmq_lane_head_wait_seconds", "How long the oldest request of a lane has waited.",
          *of_servers("lanes/{lane}/head_wait_seconds")),
    counter("rocketmq_lane_requests", "Requests that were taken from a lane to be processed.",
            *of_servers("lanes/{lane}/taken_count")),
    counter("rocketmq_lane_refused_requests", "Requests refused because their lane was full.",
            *of_servers("lanes/{lane}/refused_count")),
    counter("rocketmq_lane_expired_requests", "Requests refused because they waited too long.",
            *of_servers("lanes/{lane}/expired_count")),
    counter("rocketmq_lane_crowded_requests",
            "Requests after which their connection was not read for a while.",
            *of_servers("lanes/{lane}/crowded_count")),
)

TURNS = (
    counter("rocketmq_requests", "Requests processed.", *of_servers("turn/requests_count")),
    counter("rocketmq_answers", "Answers and pushes sent.", *of_servers("turn/answers_count")),
    counter("rocketmq_answers_dropped", "Answers whose connection was gone.",
            *of_servers("turn/answers_dropped_count")),
    counter("rocketmq_request_failures", "Requests that ended in an exception.",
            *of_servers("turn/failures_count")),
    counter("rocketmq_received_bytes", "Bytes received from clients.",
            *of_servers("turn/received_bytes")),
    counter("rocketmq_written_bytes", "Bytes written to clients.",
            *of_servers("turn/written_bytes")),
    counter("rocketmq_turns", "Turns of the loop in which requests were processed.",
            *of_servers("turn/turns_count")),
    counter("rocketmq_turn_busy_seconds", "Time spent in turns.", *of_servers("turn/busy_seconds")),
    gauge("rocketmq_turn_longest_seconds", "The longest turn since the start.",
          *of_servers("turn/longest_seconds")),
    gauge("rocketmq_loop_lag_seconds", "How late the event loop was at its last probe.",
          *of_servers("loop_lag/last_seconds")),
    gauge("rocketmq_loop_lag_worst_seconds",
          "How late the event loop was at its worst probe since the start.",
          *of_servers("loop_lag/max_seconds")),
)

TRAFFIC = (
    counter("rocketmq_requests_by_code", "Requests by their code.",
            BROKER + "/broker/requests_by_code/{code}"),
    counter("rocketmq_topic_put_messages", "Messages stored, by topic.",
            BROKER + "/traffic/put_by_topic/{topic}/0", PUTS_OF_SLAVE + "/{topic}/0"),
    counter("rocketmq_topic_put_bytes", "Bytes stored, by topic.",
            BROKER + "/traffic/put_by_topic/{topic}/1", PUTS_OF_SLAVE + "/{topic}/1"),
    counter("rocketmq_group_get_messages", "Messages handed to a consumer group, by topic.",
            BROKER + "/traffic/get_by_topic_and_group/{topic}/{group}/0"),
    counter("rocketmq_group_get_bytes", "Bytes handed to a consumer group, by topic.",
            BROKER + "/traffic/get_by_topic_and_group/{topic}/{group}/1"),
    counter("rocketmq_group_send_back_messages",
            "Messages that a consumer group sent back to try again.",
            BROKER + "/traffic/send_back_by_topic_and_group/{topic}/{group}/0"),
)

MEMBERS = (
    gauge("rocketmq_topics", "Topics.", f"{BROKER}/broker/topics/topic_count"),
    gauge("rocketmq_subscription_groups", "Consumer groups that are configured.",
          f"{BROKER}/broker/groups/group_count"),
    gauge("rocketmq_consumer_groups", "Consumer groups with a client connected.",
          f"{BROKER}/broker/consumers/group_count"),
    gauge("rocketmq_consumer_clients", "Connections that consume.",
          f"{BROKER}/broker/consumers/channel_count"),
    gauge("rocketmq_producer_groups", "Producer groups with a client connected.",
          f"{BROKER}/broker/producers/group_count"),
    gauge("rocketmq_producer_clients", "Connections that produce.",
          f"{BROKER}/broker/producers/channel_count"),
    gauge("rocketmq_rebalance_locks", "Queues locked by orderly consumers.",
          f"{BROKER}/broker/locks/lock_count"),
    gauge("rocketmq_longpoll_held_requests", "Pulls that wait for a message.",
          f"{BROKER}/broker/held_count"),
    counter("rocketmq_offset_commits", "Consumer offsets committed.",
            f"{BROKER}/broker/offsets/commit_count"),
    counter("rocketmq_offset_commits_backward", "Consumer offsets committed below the one before.",
            f"{BROKER}/broker/offsets/backward_count"),
    gauge("rocketmq_access_accounts", "Accounts of access control, if it is on.",
          f"{BROKER}/broker/access/account_count"),
    counter("rocketmq_access_refused", "Requests that access control refused.",
            f"{BROKER}/broker/access/refused_count"),
    counter("rocketmq_access_reloads", "Changes of the files of accounts that were read.",
            f"{BROKER}/broker/access/reload_count"),
    counter("rocketmq_delayed_messages_delivered",
            "Delayed messages that were put into their topic.",
            f"{BROKER}/broker/delayed/delivered_count"),
    counter("rocketmq_delayed_messages_undeliverable",
            "Delayed messages that could not be put into their topic.",
            f"{BROKER}/broker/delayed/undeliverable_count"),
    counter("rocketmq_transactions_prepared", "Half messages stored.",
            f"{BROKER}/broker/transactions/prepared_count"),
    counter("rocketmq_transactions_committed", "Half messages that were committed.",
            f"{BROKER}/broker/transactions/committed_count"),
    counter("rocketmq_transactions_rolled_back", "Half messages that were rolled back.",
            f"{BROKER}/broker/transactions/rolled_back_count"),
    counter("rocketmq_transactions_checked", "Questions to producers about half messages.",
            f"{BROKER}/broker/transactions/checked_count"),
    counter("rocketmq_transactions_unanswerable",
            "Checks of half messages for which no producer was connected.",
            f"{BROKER}/broker/transactions/unanswerable_count"),
    counter("rocketmq_transactions_discarded", "Half messages that were given up.",
            f"{BROKER}/broker/transactions/discarded_count"),
)

NAME_SERVERS = (
    counter("rocketmq_nameserver_requests_by_code", "Requests to the name server by their code.",
            NAME_SERVER + "/name_server/requests_by_code/{code}"),
    gauge("rocketmq_nameserver_brokers", "Broker names in the route.",
          f"{NAME_SERVER}/name_server/routes/broker_count"),
    gauge("rocketmq_nameserver_addresses", "Broker addresses in the route.",
          f"{NAME_SERVER}/name_server/routes/address_count"),
    gauge("rocketmq_nameserver_topics", "Topics in the route.",
          f"{NAME_SERVER}/name_server/routes/topic_count"),
    counter("rocketmq_nameserver_addresses_left", "Broker addresses that left the route, by cause.",
            NAME_SERVER + "/name_server/routes/left_by_cause/{cause}"),
)
# fmt: on
