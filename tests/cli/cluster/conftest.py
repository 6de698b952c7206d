"""One broker in this process, and command lines against it."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from wakelog.cli import app
from wakelog.cli.stop_signals import StopSignals
from wakelog.client.consumer import Consumer
from wakelog.testing import EmbeddedBroker


class CommandLine:
    """Runs `wakelog` with this broker as NAMESRV_ADDR; `out` and `err` are of the last run."""

    def __init__(self, broker: EmbeddedBroker, capture: pytest.CaptureFixture[str]) -> None:
        self.broker = broker
        self._capture = capture
        self.out = self.err = ""

    def __call__(self, *words: str, code: int = 0) -> list[str]:
        """Return the lines put out; the command ends with this exit code."""
        found = app.run(words, StopSignals())
        self.out, self.err = self._capture.readouterr()
        assert found == code, self.err
        return self.out.splitlines()

    def json(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        """Return the objects put out."""
        return [json.loads(line) for line in self(*words, "--output", "json", code=code)]

    def consume(self, group: str, topic: str, count: int) -> None:
        """Let a consumer of a group take and acknowledge messages of a topic."""

        async def take() -> None:
            async with Consumer(
                self.broker.name_server, group=group, topics={topic: "*"}, start="first"
            ) as consumer:
                for _ in range(count):
                    await (await anext(aiter(consumer))).ack()

        asyncio.run(take())

    def give_up(self, group: str, topic: str) -> None:
        """Let a consumer of a group give up one message of a topic."""

        async def take() -> None:
            async with Consumer(
                self.broker.name_server,
                group=group,
                topics={topic: "*"},
                start="first",
                max_retries=0,
            ) as consumer:
                await (await anext(aiter(consumer))).nack()

        asyncio.run(take())


@pytest.fixture(scope="package")
def broker() -> Iterator[EmbeddedBroker]:
    """Yield a broker; each test has topics and groups of its own."""
    with EmbeddedBroker(settings={"brokerName": "broker-t"}) as running:
        yield running


@pytest.fixture
def cli(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """Return what runs command lines."""
    monkeypatch.setenv("NAMESRV_ADDR", broker.name_server)
    return CommandLine(broker, capsys)
