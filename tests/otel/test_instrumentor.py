"""Putting the instrumentor in place, and back."""

import logging
import re
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from tests.otel.recording import Recording
from wakelog.client import Consumer, InvalidArgument, Producer, sync
from wakelog.client.sender import Sender
from wakelog.otel import RocketMQInstrumentor, process

METHODS = [
    (owner, name)
    for owner in (Producer, Consumer, Sender, sync.Consumer, sync.ConsumerMessage)
    for name in vars(owner)
]


def methods() -> dict[tuple[type, str], object]:
    return {(owner, name): vars(owner)[name] for owner, name in METHODS}


def test_every_method_is_the_clients_own_again() -> None:
    before = methods()
    instrumentor = RocketMQInstrumentor()
    instrumentor.instrument()
    try:
        assert instrumentor.is_instrumented_by_opentelemetry
        replaced = {place for place, method in methods().items() if method is not before[place]}
        assert (Producer, "send") in replaced and (Consumer, "fetch") in replaced
    finally:
        instrumentor.uninstrument()
    assert methods() == before
    assert not RocketMQInstrumentor().is_instrumented_by_opentelemetry
    instrumentor.uninstrument()


def test_a_second_instrumentor_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    RocketMQInstrumentor().instrument()
    try:
        once = methods()
        with caplog.at_level(logging.WARNING, "wakelog.otel"):
            RocketMQInstrumentor().instrument()
        assert methods() == once
        assert "instrumented already" in caplog.text
    finally:
        RocketMQInstrumentor().uninstrument()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"tracer_provider": "otlp"}, "Give a TracerProvider, or None for the global one"),
        ({"meter_provider": TracerProvider()}, "Give a MeterProvider"),
        ({"trace_provider": None}, "Did you mean tracer_provider?"),
    ],
)
def test_what_is_no_provider_is_refused(given: Any, text: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        RocketMQInstrumentor().instrument(**given)
    assert not RocketMQInstrumentor().is_instrumented_by_opentelemetry


def test_what_opentelemetry_gives_to_all_is_taken(recording: Recording) -> None:
    RocketMQInstrumentor().uninstrument()
    RocketMQInstrumentor().instrument(skip_dep_check=True, raise_exception_on_conflict=True)
    with (
        pytest.raises(InvalidArgument, match="Give messages that a consumer gave"),
        process(b"body"),  # type: ignore[arg-type]
    ):
        pass


def test_a_block_without_an_instrumentor_records_nothing() -> None:
    with process() as span:
        assert not span.is_recording()


@pytest.mark.process
def test_the_client_comes_without_opentelemetry() -> None:
    program = (
        "import sys, wakelog.client, wakelog.client.sync; print('opentelemetry' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "False\n"
