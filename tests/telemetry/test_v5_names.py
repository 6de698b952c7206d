"""The families of a 5.x broker, by the rules of its exporter."""

import pytest

from wakelog.telemetry.metric_spec import Kind, MetricSpec
from wakelog.telemetry.v5_names import ALL, LEFT_OUT, V5


@pytest.mark.parametrize("spec", V5, ids=lambda spec: spec.name)
def test_a_family_begins_with_the_labels_of_all(spec: MetricSpec) -> None:
    assert spec.labels[:3] == ALL == ("cluster", "node_type", "node_id")
    assert spec.kind in (Kind.GAUGE, Kind.COUNTER)
    assert spec.help.endswith(".")


def test_what_is_left_out_is_not_served() -> None:
    assert not {spec.exposed_name for spec in V5} & LEFT_OUT.keys()
    assert all(LEFT_OUT.values())
