"""The instruments, as a reader of metrics finds them."""

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from wakelog.otel.instruments import BOUNDARIES_SECONDS, Instruments, now_seconds


def test_names_units_and_attributes_are_those_of_the_conventions() -> None:
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    instruments = Instruments(None, meters)
    instruments.requested("T", "1.2.3.4:5", 3, now_seconds(), "14")
    instruments.received([("T", 2), ("U", 1)], "g", now_seconds())
    instruments.received([("T", 1)], "g", None)
    instruments.processed("T", "g", now_seconds(), "", None)
    data = reader.get_metrics_data()
    assert data is not None
    scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
    metrics: dict[str, Any] = {x.name: x for scope in scopes for x in scope.metrics}
    meters.shutdown()
    assert {(name.removeprefix("messaging."), x.unit) for name, x in metrics.items()} == {
        ("client.operation.duration", "s"),
        ("client.sent.messages", "{message}"),
        ("client.consumed.messages", "{message}"),
        ("process.duration", "s"),
    }
    [sent] = metrics["messaging.client.sent.messages"].data.data_points
    assert dict(sent.attributes) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "T",
        "server.address": "1.2.3.4",
        "server.port": 5,
        "error.type": "14",
    }
    consumed = {
        (x.attributes["messaging.operation.name"], x.attributes["messaging.destination.name"])
        for x in metrics["messaging.client.consumed.messages"].data.data_points
    }
    assert consumed == {("receive", "T"), ("receive", "U"), ("process", "T")}
    [worked] = metrics["messaging.process.duration"].data.data_points
    assert worked.explicit_bounds == BOUNDARIES_SECONDS
    assert worked.attributes["messaging.consumer.group.name"] == "g"
