"""The families of rocketmq-exporter: those of its source, with their labels, or left out."""

from pathlib import Path

import pytest

from wakelog.telemetry.exporter_names import EXPORTER, LEFT_OUT
from wakelog.telemetry.metric_spec import Kind, MetricSpec

FAMILIES = Path(__file__).with_name("exporter_families.txt")
"""Name and labels of each family, as RMQMetricsCollector.java has them."""


def theirs() -> dict[str, tuple[str, ...]]:
    rows = map(str.split, FAMILIES.read_text().splitlines())
    return {name: tuple(labels.split(",")) for name, labels in rows}


def test_every_family_is_served_or_left_out_with_a_reason() -> None:
    names = [spec.name for spec in EXPORTER]
    assert len(theirs()) == 89
    assert sorted([*names, *LEFT_OUT]) == sorted(theirs())
    assert all(LEFT_OUT.values())


@pytest.mark.parametrize("spec", EXPORTER, ids=lambda spec: spec.name)
def test_a_family_has_their_labels_in_their_order(spec: MetricSpec) -> None:
    assert spec.labels == theirs()[spec.name]
    assert spec.kind is Kind.GAUGE
    assert spec.help.endswith(".")
