"""Fakes for clients: calls without a process, a Broker's context, and events that remember."""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

from wakelog.actors.services.client import BrokerContext, ServiceClient
from wakelog.actors.services.session import AttachRequest
from wakelog.actors.services.transaction_check import DecideChecks
from wakelog.actors.transport.service_plan import ServicePlan, Transport
from wakelog.actors.transport.shared_watermarks import (
    ORDERED,
    SharedWatermarks,
    make_shared_watermarks,
)
from wakelog.broker.config_file import read_broker_conf
from wakelog.broker.decision import HoldPull
from wakelog.broker.schedule import DueMessage
from wakelog.broker.transaction_check import CheckBatch, CheckRequest

EPOCH = 7
STORE_ID = "12345678-1234-4678-9234-567812345678"


def attach_request(**changes: Any) -> AttachRequest:
    """Return what a service of an empty store is attached with."""
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
            "attach": lambda known: {"process_id": self.process_id, "flushed": 0, "position": 0},
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

    async def find_again(self) -> None:
        """Do nothing."""

    async def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        values = [await one if isinstance(one, Awaitable) else one for one in arguments]
        if method == "call":
            epoch, method, *rest = values
            values = [epoch, *rest]
        self.calls.append((method, *values))
        if method in self.hanging:
            await asyncio.Event().wait()
        return self._methods[method](*values)

    def called(self, method: str) -> list[tuple[Any, ...]]:
        """Return the arguments of every call of a method."""
        return [call[1:] for call in self.calls if call[0] == method]


async def _part(pair: Awaitable[Any], index: int) -> Any:
    return (await asyncio.shield(asyncio.ensure_future(pair)))[index]


Client = TypeVar("Client", bound=ServiceClient)


def broker_context(
    *,
    directory: Path | None = None,
    fs: Any = None,
    watermarks: SharedWatermarks | None = None,
    log_files: Any = None,
    transient_pool: Any = None,
    **settings: Any,
) -> BrokerContext:
    """Return the context of a Broker whose log ends at 0 and begins at 5."""
    runtime_directory = directory or Path("/nowhere")
    plan = ServicePlan(
        settings=read_broker_conf(
            "",
            overrides={"storePathRootDir": "/nowhere"}
            | {key: str(settings[key]) for key in settings},
        ),
        bind_host="127.0.0.1",
        transport=Transport.REFERENCES if watermarks is None else Transport.NOTIFICATIONS,
        runtime_directory=str(runtime_directory),
        log_directory=str(runtime_directory),
        memory_directory=str(runtime_directory),
    )
    store: Any = SimpleNamespace(
        max_physical_offset=0,
        min_physical_offset=5,
        dispatched=0,
        log=SimpleNamespace(files=log_files, appended_offset=900, failure=None),
        transient_pool=transient_pool,
    )
    store.set_dispatched = partial(setattr, store, "dispatched")
    return BrokerContext(
        plan,
        fs,
        store,
        epoch=EPOCH,
        watermarks=watermarks,
    )


def make_watermarks(path: Path, end: int = 0) -> SharedWatermarks:
    """Make the page of a Broker whose log is flushed and dispatched up to `end`."""
    values = dict.fromkeys(chain.from_iterable(ORDERED), end)
    return make_shared_watermarks(path, UUID(STORE_ID), epoch_min=EPOCH, values=values)


@contextmanager
def shared_watermarks(directory: Path) -> Iterator[SharedWatermarks]:
    """Make the watermarks of a Broker with an empty log, below a short directory."""
    with closing(make_watermarks(directory / "watermarks")) as made:
        yield made


async def attached(client: Client) -> Client:
    """Return the client when its service is attached."""
    client.keep_attached(attach_request)
    await client.wait_attached()
    return client


async def stop_clients(context: BrokerContext, *clients: ServiceClient) -> None:
    """Stop and close clients, the last one first, and what they share."""
    for client in reversed(clients):
        await client.stop_work()
        await client.stop()
        client.close()
    context.closings.close()


class Events:
    """What clients report, and what they ask."""

    def __init__(self) -> None:
        self.dispatched_to = 0
        self.flushed_to = 0
        self.committed_count = 0
        self.failure: str | None = None
        self.woken_ids: list[int] = []
        self.delivered: list[DueMessage] = []
        self.checked: list[CheckBatch] = []
        self.retained_at: tuple[int, bool] | None = None
        self.held: list[HoldPull] = []
        self.ended_ids: set[int] = set()

    def wake_pulls(self, physical_offset: int) -> bool:
        return bool(self.held)

    async def check_transactions(self, started_ms: int, decide: DecideChecks) -> bool:
        request = CheckRequest(
            half_offset=0,
            op_offset=0,
            started_ms=started_ms,
            now_ms=started_ms,
            timeout_ms=6_000,
            count_max=15,
            reserved_ms=3_600_000,
        )
        self.checked.append(await decide(request, 40))
        return self.checked[-1].has_more

    def held_notes(self) -> list[HoldPull]:
        return list(self.held)

    def is_held(self, note: HoldPull) -> bool:
        return note.hold_id not in self.ended_ids

    def dispatched(self, physical_offset: int) -> None:
        assert physical_offset >= self.dispatched_to
        self.dispatched_to = physical_offset

    def flushed(self, physical_offset: int) -> None:
        assert physical_offset > self.flushed_to
        self.flushed_to = physical_offset

    def flush_failed(self, cause: str) -> None:
        assert self.failure is None
        self.failure = cause

    def committed(self) -> None:
        self.committed_count += 1

    def woken(self, hold_ids: Sequence[int]) -> None:
        self.woken_ids += hold_ids

    async def deliver(self, due: Sequence[DueMessage]) -> Mapping[int, int]:
        self.delivered += due
        return {one.level: one.queue_offset + 1 for one in due}

    def retained(self, begin_offset: int, is_disk_full: bool) -> None:
        self.retained_at = begin_offset, is_disk_full
