"""A deployment and a screen that keep the contract and do nothing, for tests of their users."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from wakelog.actors.deploy.deployment import Report
from wakelog.actors.deploy.plan import Plan, UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.cli.rates import BrokerRates
from wakelog.cli.screen import Screen


async def nothing() -> None:
    """Take no time."""


async def forever() -> None:
    """Take all the time there is."""
    await asyncio.Event().wait()


class FakeDeployment:
    """Starts and stops as its arguments say, and keeps the calls."""

    def __init__(
        self,
        *,
        on_start: Callable[[], Awaitable[None]] = nothing,
        on_stop: Callable[[], Awaitable[None]] = nothing,
        in_order: bool = True,
    ) -> None:
        self._on_start = on_start
        self._on_stop = on_stop
        self._in_order = in_order
        self.calls: list[str] = []
        self.reason: str | None = None
        self.found: list[str] = []
        self.values: dict[str, Any] = {}

    async def start(self, report: Report) -> None:
        self.calls.append("start")
        report("broker-a: opening the store")
        try:
            await self._on_start()
        except asyncio.CancelledError:
            self.calls.append("start cancelled")
            raise
        self.calls.append("started")

    async def statistics(self) -> dict[str, Any]:
        self.calls.append("statistics")
        return self.values

    def notices(self) -> list[str]:
        return self.found

    def failure(self) -> str | None:
        return self.reason

    async def stop(self, report: Report) -> bool:
        self.calls.append("stop")
        report("broker-a: closing the store")
        await self._on_stop()
        self.calls.append("stopped")
        return self._in_order


class FakeScreen(Screen):
    """Keeps what it was given."""

    rates_seconds = 1.0

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.steps: list[str] = []
        self.rates: list[tuple[Sequence[BrokerRates], bool]] = []
        self.closed_count = 0

    def say(self, line: str) -> None:
        self.lines.append(line)

    def step(self, text: str) -> None:
        self.steps.append(text)

    def show_rates(self, rows: Sequence[BrokerRates], *, changed: bool) -> None:
        self.rates.append((rows, changed))

    def close(self) -> None:
        self.closed_count += 1


def plan_in(directory: object, *settings: str, **options: Any) -> Plan:
    """Return a plan with its store in `directory`, and no console."""
    options = {"console_port": 0, **options}
    return make_plan(UpOptions(store=f"{directory}/store", settings=settings, **options))


def broker_values(
    put_count: int = 0,
    get_count: int = 0,
    held_count: int = 0,
    readable: int = 0,
    dispatched: int = 0,
) -> dict[str, Any]:
    """Return the part of a broker's statistics that the rates need."""
    return {
        "broker": {"held_count": held_count},
        "store": {"put_count": put_count, "get_message_count": get_count},
        "watermarks": {"readable": readable, "dispatched": dispatched},
    }
