"""What a scrape reads of a broker beside its statistics, if it serves the names of elsewhere.

    identity   what is the same for all series of a broker
    runtime    the values of code 28, as numbers
    minute     what all clients put and got in the last minute, a second
    members    connections of groups, and of producers
    system     which names of topics and groups are RocketMQ's own, and how others of them begin

`identity` is part of the statistics. The rest is read in two steps: `begin_reading` copies tables
on the Broker's thread, and what it returns makes the pieces on any other.

Source: org.apache.rocketmq.exporter.model.BrokerRuntimeStats, task.MetricsCollectTask
(rocketmq-exporter), which reads the texts of code 28.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final

from wakelog.broker.membership import Client
from wakelog.broker.processors.statistics import VERSION_DESC, runtime_texts
from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import CONSUME_PASSIVELY, MODEL_BROADCASTING
from wakelog.protocol.codes import VERSION_4_9_3, language_name
from wakelog.protocol.names import OWN_GROUPS, SYSTEM_GROUP_PREFIX, SYSTEM_TOPIC_PREFIX
from wakelog.protocol.versions import version_name

GROUPS_MAX: Final = 1_000
"""Groups of consumers, and of producers, whose connections are read: copying 1,000 takes 1 ms."""

ADDRESSES_MAX: Final = 100
"""Clients of a group whose addresses are in one label, 4 KB; the exporter writes all."""

_RATES: Final = ("putTps", "getFoundTps", "getMissTps", "getTransferedTps", "getTotalTps")


def identity_of(state: BrokerState) -> dict[str, str]:
    """Return what tells a broker from others, and its role."""
    host, port = state.store_host
    return {
        "name": state.config.broker_name,
        "cluster": state.config.broker_cluster_name,
        "address": f"{host}:{port}",
        "role": "slave" if state.is_slave else "master",
        "version_name": VERSION_DESC,
        "version": str(VERSION_4_9_3),
        "started_ms": str(state.store_stats.boot_ms),
    }


def begin_reading(state: BrokerState, now_ms: int) -> Callable[[], Iterator[dict[str, Any]]]:
    """Copy the tables of a broker; return what yields the pieces, on any thread."""
    texts = runtime_texts(state, now_ms)
    totals = {"put_messages": _broker_tps(state, "PUT"), "get_messages": _broker_tps(state, "GET")}
    consumers = {name: state.consumers.clients(name) for name in _first(state.consumers.names())}
    producers = {name: state.producers.clients(name) for name in _first(state.producers.names())}
    left_out = {"members": _group_count(state) - len(consumers) - len(producers)}
    groups = {name: state.consumers.get(name) for name in consumers}
    models = {
        name: ("", "") if group is None else (group.message_model, group.consume_type)
        for name, group in groups.items()
    }

    def pieces() -> Iterator[dict[str, Any]]:
        yield {"minute": totals}
        yield {
            "members": members_of(consumers, producers, models),
            "queues": {"left_out": left_out},
        }
        yield {"system": _system_names(state)}
        numbers = runtime_numbers(texts())
        earliest_ms = numbers["earliestMessageTimeStamp"]  # -1 in an empty store
        reserved_ms = max(0.0, now_ms - earliest_ms) if earliest_ms >= 0 else 0.0
        yield {"runtime": {**numbers, "reserved_ms": reserved_ms, "disk": _disk(state)}}

    return pieces


def _broker_tps(state: BrokerState, item: str) -> float:
    cluster = state.config.broker_cluster_name
    found = state.traffic.snapshots(f"BROKER_{item}_NUMS", cluster)
    return found[0].tps if found else 0.0


def _group_count(state: BrokerState) -> int:
    return sum(table.statistics()["group_count"] for table in (state.consumers, state.producers))


def _first(names: Iterable[str]) -> list[str]:
    return list(islice(names, GROUPS_MAX))


def runtime_numbers(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return what is a number of the values of code 28, by name; rates of 10, 60 and 600 s."""
    numbers: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            numbers[name] = float(text)
        except ValueError:
            continue
    for name in _RATES:
        numbers[name] = [float(one or 0) for one in texts[name].split(" ")]
    times = texts["putMessageDistributeTime"].split()
    numbers["put_times"] = [int(one.rpartition(":")[2]) for one in times]
    return numbers


def _disk(state: BrokerState) -> dict[str, int]:
    root = state.store.disk_usages().get(state.store_config.paths.root)
    return {} if root is None else {"total": root.total_bytes, "free": root.free_bytes}


def members_of(
    consumers: Mapping[str, list[Client]],
    producers: Mapping[str, list[Client]],
    models: Mapping[str, tuple[str, str]],
) -> dict[str, Any]:
    """Return how many connections there are of each kind.

    models: message model and consume type by group of consumers.
    """
    groups, connections, addresses = {}, {}, {}
    for name, clients in consumers.items():
        model, consume_type = models[name]
        groups[name] = {
            "online_count": len(clients),
            "model": str(int(model != MODEL_BROADCASTING)),
        }
        mode = "push" if consume_type == CONSUME_PASSIVELY else "pull"
        connections[name] = {mode: _by_kind(clients)}
        some = clients[:ADDRESSES_MAX]
        hosts = ",".join(f"{one.channel.remote_host}:{one.channel.remote_port}" for one in some)
        addresses[name] = {hosts: {",".join(one.client_id for one in some): len(clients)}}
    producing = {one.channel.id: one for one in chain.from_iterable(producers.values())}
    return {
        "groups": groups,
        "addresses": addresses,
        "consumer_connections": connections,
        "producers": {name: len(clients) for name, clients in producers.items()},
        "producer_connections": _by_kind(producing.values()),
    }


def _by_kind(clients: Iterable[Client]) -> dict[str, dict[str, int]]:
    """Return how many there are by language and version."""
    counts = Counter((language_name(one.language), version_name(one.version)) for one in clients)
    found: dict[str, dict[str, int]] = {}
    for (language, version), count in counts.items():
        found.setdefault(language.lower(), {})[version.lower()] = count
    return found


def _system_names(state: BrokerState) -> dict[str, Any]:
    return {
        "topics": {"names": sorted(state.topics.system_topics()), "prefix": SYSTEM_TOPIC_PREFIX},
        "groups": {"names": sorted(OWN_GROUPS), "prefix": SYSTEM_GROUP_PREFIX},
    }
