"""METRICS: every metric there is, with labels, text, and where its value stands in statistics().

Dashboards, documents and tests look here. The rows are kept by subject in ``request_metrics``,
``store_metrics`` and ``actor_metrics``; their paths begin at what ``Deployment.statistics()``
returns, and what is absent there is not exposed:

    {"build":       {"version", "compat"},
     "brokers":     {name: {"identity", "broker", "server", "store", "durations", "watermarks",
                            "pool", "flush_waiters", "name_servers", "slaves", "tables",
                            "service_clients",
                            "services": {service: ...}, "added_services": {service: ...},
                            "traffic": ..., "queues": ...,      of a scrape only
                            "runtime": ..., "minute": ..., "members": ..., "system": ...}},
     "name_server": {"name_server", "server", ...},
     "supervisor":  {...}}                          with Ray only

Names follow Prometheus' rules: one prefix, base units, ``_total`` on counters only, no label in a
name. How a path is read is in ``metric_spec``. Families under the names of elsewhere break these
rules as they do there; a deployment serves them if it is asked to (`NAME_SETS`).
"""

from collections.abc import Iterable

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
from wakelog.telemetry.exporter_names import EXPORTER
from wakelog.telemetry.metric_spec import DROPPED_SERIES, Kind, MetricSpec
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
from wakelog.telemetry.v5_names import V5

BUILD = (
    MetricSpec("rocketmq_build", Kind.INFO, "What runs here.", (("build",),)),
    MetricSpec(
        "rocketmq_broker",
        Kind.INFO,
        "The name of a broker, its cluster, address and role.",
        (("brokers", "{broker}", "identity"),),
    ),
    DROPPED_SERIES,
)

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

NATIVE = "native"

NAME_SETS: dict[str, tuple[MetricSpec, ...]] = {NATIVE: METRICS, "exporter": EXPORTER, "v5": V5}
"""Families by the set of names that they belong to; no name is in two."""


def specs_of(name_sets: Iterable[str]) -> tuple[MetricSpec, ...]:
    """Return the families of some sets of names."""
    return tuple(spec for name in name_sets for spec in NAME_SETS[name])
