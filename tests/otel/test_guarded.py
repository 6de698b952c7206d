"""What is a user's own and raises: messages travel as without telemetry."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import propagate
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.metrics import ExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult

from tests.otel.recording import Recording, recorded
from wakelog import client as asynchronous
from wakelog.client import Message
from wakelog.client.sync import Consumer, Producer
from wakelog.otel import RocketMQInstrumentor, durations, guarded, process
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


class NoDecision(Sampler):
    def should_sample(self, *_: Any, **__: Any) -> Any:
        return None

    def get_description(self) -> str:
        return "none"


class BrokenFilter(ExemplarFilter):
    def should_sample(self, value: float, *_: Any, **__: Any) -> bool:
        if isinstance(value, float):  # a duration; the SDK itself asks for what is counted
            raise Broken
        return False


class GivenIds(IdGenerator):
    def __init__(self, given: Any) -> None:
        self._given = given

    def generate_span_id(self) -> int:
        return self._given  # type: ignore[no-any-return]

    generate_trace_id = generate_span_id


class BrokenText(Exception):
    """An error without a text."""

    def __str__(self) -> str:
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


@pytest.mark.parametrize("given", [None, "7", 1.5, 0, -1, 1 << 200])
def test_what_is_no_id_disturbs_no_message(
    given: Any, broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"id-{type(given).__name__}-{len(str(given))}"
    tracers = TracerProvider(id_generator=GivenIds(given), shutdown_on_exit=False)
    exporter = InMemorySpanExporter()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    RocketMQInstrumentor().instrument(tracer_provider=tracers)
    try:
        with Producer(broker.name_server) as producer:
            producer.send(topic, b"1")
    finally:
        RocketMQInstrumentor().uninstrument()
        tracers.shutdown()
    assert len(broker.messages(topic)) == 1
    [span] = exporter.get_finished_spans()
    assert span.context is not None and span.context.is_valid
    assert "drawing an id failed" in caplog.text


def test_a_sampler_without_a_decision_disturbs_no_message(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with recorded(NoDecision()) as recording:
        there_and_back(broker, "undecided")
    assert len(broker.messages("undecided")) == 2
    assert recording.spans() == []
    assert "the client goes on" in caplog.text


def test_a_filter_of_exemplars_that_raises_disturbs_no_message(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(durations, "DURATIONS_WAITING_MAX", 0)
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader], exemplar_filter=BrokenFilter(), shutdown_on_exit=False)
    RocketMQInstrumentor().instrument(meter_provider=meters)
    try:
        there_and_back(broker, "filtered")
        text = str(reader.get_metrics_data())
    finally:
        RocketMQInstrumentor().uninstrument()
        meters.shutdown()
    assert len(broker.messages("filtered")) == 2
    assert "recording a duration failed" in caplog.text
    assert "messaging.client.sent.messages" in text  # they are counted all the same


def test_an_error_without_a_text_stays_that_error(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with recorded() as recording, Producer(broker.name_server) as producer:
        producer.send("textless", b"1")
        [message] = broker.wait_for_messages("textless")
        with pytest.raises(BrokenText), process(message):
            raise BrokenText
        [span] = recording.spans("process textless")
    assert span.attributes is not None and span.attributes["error.type"] == "BrokenText"
    assert "recording an exception failed" in caplog.text


def test_what_another_tool_returns_may_be_no_receipt(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def send(*_: Any, **__: Any) -> str:
        return "sent"

    monkeypatch.setattr(asynchronous.Producer, "send", send)
    for processor in (SimpleSpanProcessor(InMemorySpanExporter()), SpanProcessor()):
        with recorded() as recording, Producer(broker.name_server) as producer:
            recording.tracers.add_span_processor(processor)
            found: Any = producer.send("elsewhere", b"1")
            assert (found, len(recording.spans("send elsewhere"))) == ("sent", 1)


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
