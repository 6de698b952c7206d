"""The table of metrics: names by Prometheus' rules, and paths that lead to a value."""

import re
import types
import typing
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from wakelog.broker.broker import BrokerStatistics
from wakelog.nameserver.name_server import NameServerStatistics
from wakelog.server.server import ServerStatistics
from wakelog.storage.message_store import StoreCounts
from wakelog.telemetry.collector import (
    Kind,
    MetricSpec,
    StatisticsCollector,
    labels_of,
    read_series,
)
from wakelog.telemetry.metrics import METRICS

NAME = re.compile(r"rocketmq(_[a-z0-9]+)+")
UNITS_MISUSED = ("_ms", "_millis", "_milliseconds", "_kb", "_mb", "_percent")


def example(kind: Any) -> Any:
    """Builtins of the shape that a statistics type has when it travels."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (dict, Mapping):
        return {"1": example(arguments[1])}
    if origin is tuple:
        return [example(argument) for argument in arguments if argument is not ...]
    if origin in (typing.Union, types.UnionType):
        return example(arguments[0])
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {field.name: example(field.type) for field in msgspec.structs.fields(kind)}
    if isinstance(kind, type) and issubclass(kind, tuple):
        hints = typing.get_type_hints(kind)
        return {name: example(hint) for name, hint in hints.items()}
    return kind()


def deployment_statistics() -> dict[str, Any]:
    """What Deployment.statistics() returns, by the types of those who answer."""
    broker = {
        "broker": example(BrokerStatistics),
        "server": example(ServerStatistics),
        "store": example(StoreCounts),
        "watermarks": dict.fromkeys(("appended", "flushed", "readable", "dispatched"), 1),
        "neighbours": {
            "attached": {"reput": True},
            "attached_count": {"reput": 1},
            "references": {"flush": 1},
            "bells": {"rung": 1},
            "segments": {"taken_count": 1, "own_count": 0},
        },
    }
    name_server = {"name_server": example(NameServerStatistics), "server": broker["server"]}
    return {
        "build": {"version": "1", "compat": "4.9.3"},
        "brokers": {"broker-a": broker},
        "name_server": name_server,
    }


@pytest.mark.parametrize("spec", METRICS, ids=lambda spec: spec.name)
def test_a_declared_metric_finds_its_value(spec: MetricSpec) -> None:
    values = deployment_statistics()
    for source in spec.sources:
        assert read_series(msgspec.structs.replace(spec, sources=(source,)), values), source


@pytest.mark.parametrize("spec", METRICS, ids=lambda spec: spec.name)
def test_a_name_keeps_the_rules(spec: MetricSpec) -> None:
    assert NAME.fullmatch(spec.name)
    assert not spec.name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
    assert not spec.name.endswith(UNITS_MISUSED)
    assert spec.help.endswith(".")
    assert all(labels_of(source) == spec.labels for source in spec.sources)
    assert not any(label in spec.name.split("_") for label in ("broker", "role"))
    if spec.kind is Kind.HISTOGRAM:
        assert spec.name.endswith("_seconds")


def test_names_are_unique() -> None:
    names = [spec.exposed_name for spec in METRICS]
    assert len(names) == len(set(names))


def test_everything_is_exposed_at_once() -> None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatisticsCollector(deployment_statistics, METRICS))
    text = generate_latest(registry).decode()
    assert 'rocketmq_connections{broker="broker-a",role="broker"} 0.0' in text
    assert 'rocketmq_connections{broker="",role="nameserver"} 0.0' in text
    assert 'rocketmq_build_info{compat="4.9.3",version="1"} 1.0' in text
    assert 'rocketmq_dispatch_lag_bytes{broker="broker-a"} 0.0' in text
