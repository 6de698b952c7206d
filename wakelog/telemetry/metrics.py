"""METRICS: every metric there is, with labels, text, and where its value stands in statistics().

Dashboards, documents and tests look here. The rows are kept by subject in ``request_metrics``,
``store_metrics`` and ``actor_metrics``; their paths begin at what ``Deployment.statistics()``
returns, and what is absent there is not exposed:

    {"build":       {"version", "compat"},
     "brokers":     {name: {"broker", "server", "store", "durations", "watermarks", "pool",
                            "flush_waiters", "name_servers", "slaves", "tables",
                            "service_clients",
                            "services": {service: ...}, "added_services": {service: ...},
                            "traffic": ..., "queues": ...}},    of a scrape only
     "name_server": {"name_server", "server", ...},
     "supervisor":  {...}}                          with Ray only

Names follow Prometheus' rules: one prefix, base units, ``_total`` on counters only, no label in a
name. How a path is read is in ``metric_spec``.
"""

from wakelog.telemetry.actor_metrics import (
    ADDED_SERVICES,
    CERTIFICATES,
    HOLDS,
    LINKS,
    POOL,
    REGISTRATIONS,
    SUPERVISION,
    TABLES,
)
from wakelog.telemetry.metric_spec import Kind, MetricSpec
from wakelog.telemetry.request_metrics import (
    CONNECTIONS,
    LANES,
    MEMBERS,
    NAME_SERVERS,
    TRAFFIC,
    TURNS,
)
from wakelog.telemetry.store_metrics import (
    COMMIT,
    DISPATCH,
    DURATIONS,
    ELECTION,
    FLUSH,
    FOLLOWING,
    LOG,
    PLUGINS,
    QUEUES,
    REPLICATION,
    RETENTION,
    SEGMENTS,
    WATERMARKS,
)

BUILD = (MetricSpec("rocketmq_build", Kind.INFO, "What runs here.", (("build",),)),)

METRICS_BY_SUBJECT: dict[str, tuple[MetricSpec, ...]] = {
    "Build": BUILD,
    "Connections": CONNECTIONS,
    "Lanes": LANES,
    "Turns of the loop": TURNS,
    "Traffic": TRAFFIC,
    "Topics, groups and clients": MEMBERS,
    "Long polling": HOLDS,
    "Queues and lags": QUEUES,
    "Log": LOG + DURATIONS,
    "Watermarks": WATERMARKS,
    "Dispatch": DISPATCH,
    "Dispatchers from elsewhere": PLUGINS,
    "Flush": FLUSH,
    "Transient pool": COMMIT,
    "Segments": SEGMENTS,
    "Retention": RETENTION,
    "Replication": REPLICATION,
    "Following": FOLLOWING,
    "Election": ELECTION,
    "Pool": POOL,
    "Tables": TABLES,
    "Registration": REGISTRATIONS,
    "Certificates": CERTIFICATES,
    "Actors": LINKS + SUPERVISION,
    "Services from elsewhere": ADDED_SERVICES,
    "Name server": NAME_SERVERS,
}
"""In the order in which a document shows them."""

METRICS: tuple[MetricSpec, ...] = tuple(
    spec for subject in METRICS_BY_SUBJECT.values() for spec in subject
)
