"""Putting the instrumentor in place, and back."""

import logging
import subprocess
import sys

import pytest

from wakelog.client import Consumer, Producer, sync
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
