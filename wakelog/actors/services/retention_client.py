"""The Broker's end of retention: have Retention run every clean-resource interval.

What was removed of the log is removed of queues and index by Reput, which writes those files.
Readers of segments from outside lease them from Retention, by way of the Broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from wakelog.actors.services.broker_events import BrokerEvents
from wakelog.actors.services.retention import RetentionOutcome
from wakelog.actors.transport.batching import BatchWorker
from wakelog.actors.transport.service_client import ServiceClient, ServiceLost

LEASE_SECONDS_MAX = 15.0
"""How long Retention may take to be there, and then to answer: its run may be under way, which
removes ten segments with a pause behind each."""

LogEnd = Callable[[], int]
"""Returns the log's end."""


class RetentionClient:
    """To Retention, by calls whatever the transport."""

    def __init__(
        self,
        retention: ServiceClient,
        reput: ServiceClient,
        epoch: int,
        events: BrokerEvents,
        *,
        log_end: LogEnd,
        interval_seconds: float,
    ) -> None:
        """Run nothing until attached."""
        self._retention = retention
        self._reput = reput
        self._epoch = epoch
        self._events = events
        self._log_end = log_end
        self._interval_seconds = interval_seconds
        self._worker = BatchWorker("retention", self._run)
        self._timer: asyncio.TimerHandle | None = None
        self._trim_before = 0
        self.removed_count = 0

    def attached(self) -> None:
        """Look at the disk now."""
        self._worker.ask()

    async def ask(self, method: str, *arguments: Any) -> dict[str, Any]:
        """Ask about a lease and return the answer. Raises: ServiceLost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LEASE_SECONDS_MAX):
                await self._retention.wait_attached()
        return dict(
            await self._retention.ask(
                "lease", method, self._epoch, *arguments, seconds_max=LEASE_SECONDS_MAX
            )
        )

    async def stop(self) -> None:
        """Run no more."""
        if self._timer is not None:
            self._timer.cancel()
        await self._worker.wait_idle()

    async def _run(self) -> bool:
        try:
            # The slowest dispatcher, plug-ins included, decides what may go.
            floor = await self._reput.ask("retention", "floor", self._epoch)
            answer = await self._retention.ask(
                "retention", "run", self._epoch, self._log_end(), floor
            )
            outcome = msgspec.convert(answer, RetentionOutcome)
            self.removed_count += len(outcome.removed)
            self._events.retained(begin_offset=outcome.begin, disk_full=outcome.disk_full)
            self._trim_before = max(self._trim_before, outcome.derived_before or 0)
            if self._trim_before:
                trimmed = await self._reput.ask("retention", "trim", self._epoch, self._trim_before)
                if trimmed is not None:
                    self._trim_before = 0
        except ServiceLost:
            pass  # what was to be trimmed is remembered
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._interval_seconds, self._worker.ask)
        return False
