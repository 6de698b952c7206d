"""Clients: each consumer that is online, where it runs, and what it consumes; and producers."""

from collections.abc import Collection
from typing import Final, NamedTuple

from wakelog.console.cluster_reading import BrokerReading, ClusterReading
from wakelog.console.views.lists import Head, ListOf
from wakelog.protocol.bodies import ProducerConnection
from wakelog.protocol.versions import version_name

CLIENTS: Final = ListOf(
    (
        Head("client", "Client", lambda row: row.client_id),
        Head("address", "Address", lambda row: row.address),
        Head("language", "Language", lambda row: row.language),
        Head("version", "Version", lambda row: row.version),
        Head("", "Groups"),
    ),
    text=lambda row: " ".join((row.client_id, row.address, row.language, *row.groups)),
    sort="client",
)
PRODUCERS: Final = ListOf(
    (
        Head("group", "Group", lambda row: row.group),
        Head("client", "Client", lambda row: row.client_id),
        Head("address", "Address", lambda row: row.address),
        Head("language", "Language", lambda row: row.language),
        Head("version", "Version", lambda row: row.version),
        Head("heard", "Last heartbeat", lambda row: row.heard_ms, is_number=True),
    ),
    text=lambda row: " ".join(row[:5]),
    sort="group",
)


class ClientRow(NamedTuple):
    """A client with the groups that it is a member of."""

    client_id: str
    address: str
    language: str
    version: str
    groups: tuple[str, ...]


class ProducerRow(NamedTuple):
    """A producer. address: of one of its connections. heard_ms: 0 if that is not known."""

    group: str
    client_id: str
    address: str
    language: str
    version: str
    heard_ms: int


def version_text(version: int) -> str:
    """Return a version of RocketMQ as people write it: 4.9.3."""
    return version_name(version).removeprefix("V").replace("_", ".")


def rows(cluster: ClusterReading) -> list[ClientRow]:
    """Return the consumers that are online; one that is in several groups comes once."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for name, group in sorted(cluster.groups.items()):
        for each in group.clients.connection_set if group.clients else ():
            key = each.client_id, each.client_addr, each.language, version_text(each.version)
            found.setdefault(key, []).append(name)
    return [ClientRow(*key, tuple(names)) for key, names in sorted(found.items())]


def producer_rows(
    cluster: ClusterReading, broker_names: Collection[str] | None = None
) -> list[ProducerRow]:
    """Return the producers that brokers name, each once however many brokers it is connected to.

    broker_names: of these alone.
    """
    found: dict[tuple[str, str], ProducerRow] = {}
    for broker in cluster.brokers:
        if broker_names is not None and broker.name not in broker_names:
            continue
        for group, infos in (broker.producers or {}).items():
            for info in infos:
                key, heard_ms = (group, info.client_id), info.last_update_timestamp
                if key in found and found[key].heard_ms >= heard_ms:
                    continue
                address, version = info.remote_ip.removeprefix("/"), version_text(info.version)
                found[key] = ProducerRow(*key, address, info.language, version, heard_ms)
    return [row for _, row in sorted(found.items())]


def connected(group: str, found: ProducerConnection) -> list[ProducerRow]:
    """Return the clients of a producer group, as one broker knows them."""
    return sorted(
        ProducerRow(group, x.client_id, x.client_addr, x.language, version_text(x.version), 0)
        for x in found.connection_set
    )


def without_producers(cluster: ClusterReading) -> list[str]:
    """Return the brokers that answer, and do not say which producers they have."""
    asked: dict[str, BrokerReading] = {}
    for each in cluster.brokers:
        asked.setdefault(each.name, each)
    return [x for x, y in asked.items() if y.producers is None and y.failure is None]
