"""The table of metrics: names by Prometheus' rules, and paths that lead to a value of a broker."""

import re
from importlib import metadata
from typing import Any

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from scripts import version as scripts_version
from wakelog.telemetry import build
from wakelog.telemetry.build import NOT_INSTALLED, build_facts
from wakelog.telemetry.collector import SeriesReader, read_series
from wakelog.telemetry.metric_spec import (
    Kind,
    MetricSpec,
    Path,
    counter,
    gauge,
    histogram,
    labels_of,
)
from wakelog.telemetry.metrics import METRICS, NAME_SETS, specs_of
from wakelog.telemetry.text_format import write_family

NAME = re.compile(r"rocketmq(_[a-z0-9]+)+")
UNITS_MISUSED = ("_ms", "_millis", "_milliseconds", "_kb", "_mb", "_percent")

# What the broker that is asked here has not, by a part of the path.
ABSENT = {
    "supervisor": "there is one with Ray only",
    "notifications": "in one process there are calls instead",
    "plugins": "none is installed",
    "added_services": "none is installed, and there are some with Ray only",
    "troubles": "every service does its work",
    "puts_by_topic": "a slave has these",
    "following": "a slave has these",
    "election": "a replica of a group with a register has these",
    "valid_until_ms": "certificates from files have this",
    "dropped_series": "the collector counts them",
    "{topic:%RETRY%}": "this group gets no retried message",
    "rates": "this client answers no question",
    "%DLQ%{consumer_group}": "no message is given up",
    "%DLQ%{group}": "no message is given up",
    "{topic:%DLQ%}": "no message is given up",
}


def is_absent(source: Path) -> bool:
    return any(part in ABSENT for part in source)


EVERY = specs_of(NAME_SETS)


@pytest.mark.slow
@pytest.mark.parametrize("spec", EVERY, ids=lambda spec: spec.name)
def test_a_declared_metric_finds_its_value(spec: MetricSpec, statistics: dict[str, Any]) -> None:
    for source in spec.sources:
        found = read_series(msgspec.structs.replace(spec, sources=(source,)), statistics)
        assert bool(found) is not is_absent(source), source


@pytest.mark.parametrize("spec", METRICS, ids=lambda spec: spec.name)
def test_a_name_keeps_the_rules(spec: MetricSpec) -> None:
    assert NAME.fullmatch(spec.name)
    assert not spec.name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
    assert not spec.name.endswith(UNITS_MISUSED)
    assert spec.help.endswith(".")
    assert all(labels_of(source) == spec.labels for source in spec.sources)
    if spec.kind is not Kind.INFO:
        assert not any(label in spec.name.split("_") for label in ("broker", "role"))
    if spec.kind is Kind.HISTOGRAM:
        assert spec.name.endswith("_seconds")


def test_names_are_unique() -> None:
    names = [name for spec in EVERY for name in spec.series_names]
    assert len(names) == len(set(names))


def written(statistics: dict[str, Any], *, is_openmetrics: bool) -> str:
    families = SeriesReader(EVERY).read(statistics)
    return "".join(write_family(*each, is_openmetrics=is_openmetrics) for each in families)


@pytest.mark.slow
def test_everything_is_exposed_at_once(statistics: dict[str, Any]) -> None:
    text = written(statistics, is_openmetrics=False)
    assert 'rocketmq_connections{broker="broker-a",role="broker"} 1.0' in text
    assert 'rocketmq_connections{broker="",role="nameserver"} 1.0' in text
    assert 'rocketmq_build_info{compat="4.9.3",' in text
    of_broker = 'broker="broker-a",cluster="DefaultCluster"'
    assert f'rocketmq_consumer_offset{{{of_broker},group="consumers",topic="metrics"}} 5.0' in text
    assert 'rocketmq_dispatch_lag_bytes{broker="broker-a",dispatcher="builtin"} 0.0' in text


@pytest.mark.slow
def test_everything_is_openmetrics_too(statistics: dict[str, Any]) -> None:
    """The exporter has gauges whose names end as those of counters."""
    text = written(statistics, is_openmetrics=True) + "# EOF\n"
    families = parse_openmetrics(text)  # type: ignore[no-untyped-call]
    names = {family.name for family in families}
    assert {"rocketmq_brokeruntime_put_message_size_total", "rocketmq_messages_in"} <= names


def test_labels_stand_in_the_order_of_the_path() -> None:
    path = ("role=broker", "brokers", "{broker}", "depth", "{lane}")
    assert labels_of(path) == ("role", "broker", "lane")


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (gauge("held", "H.", "x"), ("held",)),
        (counter("puts", "P.", "x"), ("puts_total",)),
        (
            histogram("a_seconds", "A.", "x"),
            ("a_seconds_bucket", "a_seconds_sum", "a_seconds_count"),
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_query_names_a_series(spec: MetricSpec, names: tuple[str, ...]) -> None:
    assert spec.series_names == names


def test_labels_of_a_family_are_those_of_its_paths() -> None:
    spec = gauge("m", "M.", "role=a/{broker}/x", "role=b/broker=/y")
    assert spec.labels == ("role", "broker")


def test_the_version_is_that_of_the_distribution() -> None:
    assert build_facts() == {"version": metadata.version("wakelog"), "compat": "4.9.3"}


def test_code_that_is_not_installed_is_of_the_first_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    monkeypatch.setattr(build, "version", build.version.__wrapped__)
    assert build_facts()["version"] == NOT_INSTALLED == f"{scripts_version.FIRST}.dev0"
