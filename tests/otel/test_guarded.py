"""What is a user's own and raises: messages travel as without telemetry."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import propagate
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult

from tests.otel.recording import Recording, recorded
from wakelog.client import Message
from wakelog.client.sync import Consumer, Producer
from wakelog.otel import RocketMQInstrumentor, guarded
from wakelog.testing import EmbeddedBroker


class Broken(Exception):
    """What a user's own part raises."""


class BrokenSampler(Sampler):
    def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
        raise Broken

    def get_description(self) -> str:
        return "broken"


class BrokenBegin(SpanProcessor):
    def on_start(self, *_: Any, **__: Any) -> None:
        raise Broken


class BrokenEnd(SpanProcessor):
    def on_end(self, *_: Any, **__: Any) -> None:
        raise Broken


class BrokenIds(IdGenerator):
    def generate_span_id(self) -> int:
        raise Broken

    def generate_trace_id(self) -> int:
        raise Broken


class BrokenPropagator(TextMapPropagator):
    @property
    def fields(self) -> set[str]:
        return {"traceparent"}

    def inject(self, *_: Any, **__: Any) -> None:
        raise Broken

    def extract(self, *_: Any, **__: Any) -> Any:
        raise Broken


@pytest.fixture(autouse=True)
def _from_the_first_line_on() -> Iterator[None]:
    guarded._logged_seconds.clear()
    yield
    guarded._logged_seconds.clear()


def there_and_back(broker: EmbeddedBroker, topic: str) -> None:
    """Send in each way, and consume what came."""
    with Producer(broker.name_server) as producer:
        producer.send(topic, b"1")
        producer.send_many([Message(topic, b"2")])
    with Consumer(broker.name_server, group=topic, topics=topic, start="first") as consumer:
        for _, message in zip(range(2), consumer, strict=False):
            message.ack()


@pytest.mark.parametrize("broken", [BrokenSampler, BrokenBegin, BrokenEnd, BrokenIds])
def test_what_raises_disturbs_no_message(
    broken: Any, broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    if issubclass(broken, Sampler):
        tracers = TracerProvider(sampler=broken(), shutdown_on_exit=False)
    elif issubclass(broken, IdGenerator):
        tracers = TracerProvider(id_generator=broken(), shutdown_on_exit=False)
    else:
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(broken())
    RocketMQInstrumentor().instrument(tracer_provider=tracers)
    try:
        there_and_back(broker, broken.__name__)
    finally:
        RocketMQInstrumentor().uninstrument()
        tracers.shutdown()
    assert sorted(x.body for x in broker.messages(broken.__name__)) == [b"1", b"2"]
    [line] = [each for each in caplog.records if each.name == "wakelog.otel"]
    assert "the client goes on" in line.message
    assert line.exc_info is not None and line.exc_info[0] is Broken


def test_a_propagator_that_raises_disturbs_no_message(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    before = propagate.get_global_textmap()
    propagate.set_global_textmap(BrokenPropagator())
    try:
        with recorded():
            there_and_back(broker, "propagator")
    finally:
        propagate.set_global_textmap(before)
    assert "writing the context of a trace failed" in caplog.text


def test_a_line_is_written_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("wakelog.otel.guarded.time.monotonic", lambda: now[0])
    with caplog.at_level(logging.ERROR, "wakelog.otel"):
        for seconds in (100.0, 159.9, 160.0):
            now[0] = seconds
            try:
                raise Broken
            except Broken:
                guarded.log_failure("sampling")
    assert len(caplog.records) == 2


def test_where_nothing_raises_nothing_is_logged(
    broker: EmbeddedBroker, recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    there_and_back(broker, "sound")
    assert len(recording.spans()) == 4
    assert not [each for each in caplog.records if each.name == "wakelog.otel"]
