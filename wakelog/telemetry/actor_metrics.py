"""Metrics of the actors of a broker: who is there, what crossed between them, what they waited for.

A reference is an actor call and its result; a notification is a datagram that says
"read the shared watermarks".
"""

from wakelog.telemetry.metric_spec import BROKER, NAME_SERVER, counter, gauge

SUPERVISOR = "supervisor"
ADDED = BROKER + "/added_services/{service}"
PULL_HOLD = f"{BROKER}/services/pull_hold"

# fmt: off
LINKS = (
    gauge("rocketmq_actor_attached", "1 while an actor of the group works for the broker.",
          BROKER + "/service_clients/attached/{actor}"),
    gauge("rocketmq_actor_trouble",
          "1 for an actor of the group that does not do its work, with the reason and what helps.",
          BROKER + "/service_clients/troubles/{actor}/{reason}/{remedy}"),
    counter("rocketmq_actor_attaches",
            "How often an actor of the group began to work for the broker.",
            BROKER + "/service_clients/attached_count/{actor}"),
    counter("rocketmq_actor_references",
            "Object references that crossed between actors, by what they were for.",
            BROKER + "/service_clients/references/{kind}",
            f"broker=/{SUPERVISOR}/references/{{kind}}"),
    counter("rocketmq_actor_notifications",
            "Notifications that the broker sent, by outcome; none with --transport references.",
            BROKER + "/service_clients/notifications/{outcome}"),
)

SUPERVISION = (
    gauge("rocketmq_actor_answers",
          "1 for an actor that gave its numbers in time for this scrape, 0 for one left out.",
          f"{SUPERVISOR}/answered/{{broker}}/{{actor}}"),
    counter("rocketmq_actor_restarts",
            "Brokers and name servers that had died and were started again.",
            f"{SUPERVISOR}/restart_count"),
    counter("rocketmq_actor_kills", "Actors that were killed because they did not answer.",
            f"{SUPERVISOR}/killed_count"),
)

ADDED_SERVICES = (
    gauge("rocketmq_service_value",
          "What a service from elsewhere says of itself, under its own names.",
          ADDED + "/values/{value}"),
    counter("rocketmq_service_failures", "Times that a service from elsewhere raised.",
            f"{ADDED}/failures_count"),
)

HOLDS = (
    counter("rocketmq_longpoll_wakes",
            "Pulls that were run again, because a message came or their time was over.",
            f"cause=arrival/{PULL_HOLD}/woken_by_arrival_count",
            f"cause=deadline/{PULL_HOLD}/woken_by_deadline_count"),
    gauge("rocketmq_longpoll_queues", "Queues that a pull waits for.", f"{PULL_HOLD}/queue_count"),
)

POOL = (
    gauge("rocketmq_pool_waiting_requests", "Requests that wait for a thread or for the disk.",
          f"{BROKER}/pool/waiting_count"),
    counter("rocketmq_pool_requests", "Requests whose work was given to the pool.",
            f"{BROKER}/pool/run_count"),
    counter("rocketmq_pool_refused_requests",
            "Requests refused because too many waited for the pool.",
            f"{BROKER}/pool/refused_count"),
)

TABLES = (
    counter("rocketmq_table_saves",
            "Files of a table, such as the consumer offsets, that were written.",
            f"role=broker/{BROKER}/tables/saved_count",
            f"role=nameserver/broker=/{NAME_SERVER}/saves_count"),
    counter("rocketmq_table_save_failures", "Files of a table that could not be written.",
            f"role=broker/{BROKER}/tables/failed_count",
            f"role=nameserver/broker=/{NAME_SERVER}/saves_failed_count"),
)

REGISTRATIONS = (
    counter("rocketmq_registrations", "Registrations that a name server took.",
            f"{BROKER}/name_servers/registered_count"),
    counter("rocketmq_registration_failures", "Registrations that a name server did not take.",
            f"{BROKER}/name_servers/failed_count"),
)

CERTIFICATES = (
    counter("rocketmq_certificate_reads",
            "Times that certificates were read: at the start, and after a change.",
            f"role=broker/{BROKER}/certificates/read_count",
            f"role=nameserver/broker=/{NAME_SERVER}/certificates/read_count"),
    counter("rocketmq_certificate_refusals",
            "Changed certificates that could not be used; the old ones stay.",
            f"role=broker/{BROKER}/certificates/refused_count",
            f"role=nameserver/broker=/{NAME_SERVER}/certificates/refused_count"),
    gauge("rocketmq_certificate_expiry_timestamp_seconds",
          "Until when the certificate from a file is valid, in seconds since 1970.",
          f"role=broker/{BROKER}/certificates/valid_until_ms",
          f"role=nameserver/broker=/{NAME_SERVER}/certificates/valid_until_ms", scale=0.001),
)
# fmt: on
