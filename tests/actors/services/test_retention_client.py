"""Retention runs in turns, below what every dispatcher has, and its outcome is told on."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.actors.bounded import run
from tests.actors.services.fakes import EPOCH, Events, FakeCalls, attached_client
from wakelog.actors.services import retention_client
from wakelog.actors.services.retention import RetentionOutcome
from wakelog.actors.services.retention_client import RetentionClient
from wakelog.actors.transport.service_client import ServiceClient, ServiceLost


def outcome(*, derived_before: int | None = None) -> dict[str, Any]:
    value = RetentionOutcome(400, derived_before, True, 0, ["/log/0"])
    return dict(msgspec.to_builtins(value))


class Harness:
    """A line between a Retention and a Reput that answer at once."""

    def __init__(self) -> None:
        self.trimmed: int | None = 3
        self.retention = FakeCalls(run=lambda epoch, end, floor: outcome(derived_before=400))
        self.reput = FakeCalls(floor=lambda epoch: 700, trim=lambda epoch, begin: self.trimmed)
        self.events = Events()

    async def start(self, interval_seconds: float) -> None:
        self.neighbours = [
            await attached_client(self.retention),
            await attached_client(self.reput),
        ]
        self.line = RetentionClient(
            self.neighbours[0],
            self.neighbours[1],
            EPOCH,
            self.events,
            log_end=lambda: 900,
            interval_seconds=interval_seconds,
        )

    async def wait_runs(self, count: int) -> None:
        while len(self.retention.called("run")) < count:
            await asyncio.sleep(0.001)
        while self.line._worker.is_running:
            await asyncio.sleep(0)

    async def stop(self) -> None:
        await self.line.stop()
        for client in self.neighbours:
            await client.stop()


def test_a_run_is_told_the_slowest_dispatcher_and_tells_the_rest() -> None:
    async def main() -> None:
        harness = Harness()
        await harness.start(3_600)
        harness.line.attached()
        await harness.wait_runs(1)
        assert harness.retention.called("run") == [(EPOCH, 900, 700)]
        assert harness.events.retained_at == (400, True)
        assert harness.reput.called("trim") == [(EPOCH, 400)]
        assert harness.line.removed_count == 1
        await harness.stop()

    run(main)


def test_runs_are_repeated() -> None:
    async def main() -> None:
        harness = Harness()
        await harness.start(0.01)
        harness.line.attached()
        await harness.wait_runs(3)
        await harness.stop()

    run(main)


def test_without_reput_nothing_is_removed() -> None:
    async def main() -> None:
        harness = Harness()
        await harness.start(3_600)
        await harness.neighbours[1].stop()
        harness.line.attached()
        while harness.line._timer is None:
            await asyncio.sleep(0)
        assert harness.retention.called("run") == []
        await harness.stop()

    run(main)


def test_what_could_not_be_trimmed_now_is_trimmed_later() -> None:
    async def main() -> None:
        harness = Harness()
        harness.trimmed = None
        await harness.start(0.01)
        harness.line.attached()
        await harness.wait_runs(2)
        assert harness.reput.called("trim") == [(EPOCH, 400)] * 2
        await harness.stop()

    run(main)


def test_a_lease_is_prepare_read_once_retention_is_there() -> None:
    async def main() -> None:
        retention = FakeCalls(renew_lease=lambda epoch, lease_id: {"expires_ms": 5})
        client = ServiceClient("retention", retention, dict)
        line = RetentionClient(
            client, client, EPOCH, Events(), log_end=lambda: 0, interval_seconds=1
        )
        asking = asyncio.ensure_future(line.ask("renew_lease", "a"))
        await asyncio.sleep(0)
        assert not asking.done() and not retention.calls
        client.keep()
        assert await asking == {"expires_ms": 5}
        assert retention.called("renew_lease") == [(EPOCH, "a")]
        await client.stop()

    run(main)


def test_a_retention_that_does_not_come_is_said_to_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_client, "LEASE_SECONDS_MAX", 0.01)

    async def main() -> None:
        client = ServiceClient("retention", FakeCalls(), dict)
        line = RetentionClient(
            client, client, EPOCH, Events(), log_end=lambda: 0, interval_seconds=1
        )
        with pytest.raises(ServiceLost):
            await line.ask("renew_lease", "a")

    run(main)
