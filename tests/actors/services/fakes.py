"""Fakes for the lines: a neighbour without a process, and somebody who hears."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from wakelog.actors.services.broker_events import AttachRequest
from wakelog.actors.transport.service_client import ServiceClient
from wakelog.broker.decision import HoldPull
from wakelog.broker.schedule import DueMessage

EPOCH = 7
STORE_ID = "12345678-1234-4678-9234-567812345678"


def attachment(**changes: Any) -> AttachRequest:
    """Return what a neighbour of an empty store is attached with."""
    values: dict[str, Any] = {
        "epoch": EPOCH,
        "store_id": STORE_ID,
        "appended": 0,
        "committed": 0,
        "flushed": 0,
        "readable": 0,
        "dispatched": 0,
        "delay_positions": {},
    }
    return AttachRequest(**{**values, **changes})


class FakeCalls:
    """Answers calls by functions; a call whose method is in `hanging` is never answered."""

    def __init__(self, **methods: Callable[..., Any]) -> None:
        self.counts: Counter[str] = Counter()
        self.calls: list[tuple[Any, ...]] = []
        self.hanging: set[str] = set()
        self.process_id = os.getpid()
        self._methods: dict[str, Callable[..., Any]] = {
            "attach": lambda known: {"process_id": self.process_id},
            "release": lambda: None,
            **methods,
        }

    def call(self, kind: str, method: str, *arguments: Any) -> Awaitable[Any]:
        self.counts[kind] += 1
        return asyncio.get_running_loop().create_task(self._call(method, arguments))

    def call_two(
        self, kind: str, method: str, *arguments: Any
    ) -> tuple[Awaitable[Any], Awaitable[Any]]:
        pair = self.call(kind, method, *arguments)
        loop = asyncio.get_running_loop()
        return loop.create_task(_part(pair, 0)), loop.create_task(_part(pair, 1))

    async def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        values = [await one if isinstance(one, Awaitable) else one for one in arguments]
        self.calls.append((method, *values))
        if method in self.hanging:
            await asyncio.Event().wait()
        return self._methods[method](*values)

    def called(self, method: str) -> list[tuple[Any, ...]]:
        """Return the arguments of every call of a method."""
        return [call[1:] for call in self.calls if call[0] == method]


async def _part(pair: Awaitable[Any], index: int) -> Any:
    return (await asyncio.shield(asyncio.ensure_future(pair)))[index]


async def attached_client(calls: FakeCalls, **hooks: Callable[..., None]) -> ServiceClient:
    """Return a neighbour that is attached."""
    client = ServiceClient("fake", calls, dict, **hooks)
    client.keep()
    await client.wait_attached()
    return client


class Events:
    """LinkEvents that remember."""

    def __init__(self) -> None:
        self.dispatched_to = 0
        self.flushed_to = 0
        self.committed_to = 0
        self.failure: str | None = None
        self.woken_ids: list[int] = []
        self.delivered: list[DueMessage] = []
        self.retained_at: tuple[int, bool] | None = None
        self.held: list[HoldPull] = []
        self.known = attachment()

    def attachment(self) -> AttachRequest:
        return self.known

    def is_awaited(self) -> bool:
        return bool(self.held)

    def held_notes(self) -> list[HoldPull]:
        return list(self.held)

    def dispatched(self, physical_offset: int) -> None:
        assert physical_offset >= self.dispatched_to
        self.dispatched_to = physical_offset

    def flushed(self, physical_offset: int) -> None:
        assert physical_offset > self.flushed_to
        self.flushed_to = physical_offset

    def flush_failed(self, cause: str) -> None:
        assert self.failure is None
        self.failure = cause

    def committed(self, physical_offset: int) -> None:
        assert physical_offset >= self.committed_to
        self.committed_to = physical_offset

    def woken(self, hold_ids: Sequence[int]) -> None:
        self.woken_ids += hold_ids

    async def deliver(self, due: Sequence[DueMessage]) -> Mapping[int, int]:
        self.delivered += due
        return {one.level: one.queue_offset + 1 for one in due}

    def retained(self, *, begin_offset: int, disk_full: bool) -> None:
        self.retained_at = begin_offset, disk_full
