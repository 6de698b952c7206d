"""Rows: the labels that paths bind, and the names that a query may use."""

import pytest

from wakelog.telemetry.metric_spec import MetricSpec, counter, gauge, histogram, labels_of


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
