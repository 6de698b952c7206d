"""Deployments for tests: small stores, free ports, and waiting for a condition."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.actors.client import Client
from tests.compat.processes import free_port
from wakelog.actors.deploy.deployment import Deployment, make_deployment
from wakelog.actors.deploy.plan import Plan, UpOptions
from wakelog.actors.deploy.planning import PORTS_BETWEEN_BROKERS, make_plan
from wakelog.actors.transport.service_plan import Transport

T = TypeVar("T")

WAIT_SECONDS_MAX = 20.0
CHECK_SECONDS = 0.02


def small_plan(
    store: Path,
    *settings: str,
    is_local: bool = True,
    transport: Transport = Transport.NOTIFICATIONS,
    segment_bytes: int = 1 << 20,
    broker_count: int = 1,
    replica_count: int = 1,
) -> Plan:
    """Return a plan with small files on ports that are free now."""
    stores_count = broker_count * replica_count
    firsts = range(0, stores_count * PORTS_BETWEEN_BROKERS, PORTS_BETWEEN_BROKERS)
    offsets = [first + above for first in firsts for above in (-2, 0, 1)]
    return make_plan(
        UpOptions(
            store=str(store),
            name_server_port=free_port(),
            broker_port=free_port(*offsets),
            metrics_port=0,
            is_local=is_local,
            transport=transport,
            broker_count=broker_count,
            replica_count=replica_count,
            settings=(
                f"mappedFileSizeCommitLog={segment_bytes}",
                "mappedFileSizeConsumeQueue=6000",
                "maxHashSlotNum=1000",
                "maxIndexNum=4000",
                *settings,
            ),
        )
    )


@asynccontextmanager
async def running(plan: Plan) -> AsyncIterator[tuple[Deployment, Client]]:
    """Run a deployment, with a client of its first broker, and stop it in order."""
    deployment = make_deployment(plan)
    client = Client(plan.brokers[0].address)
    try:
        await deployment.start(lambda what: None)
        yield deployment, client
    finally:
        await client.close()
        await deployment.stop(lambda what: None)


async def wait_until(
    probe: Callable[[], Any], what: str, seconds_max: float = WAIT_SECONDS_MAX
) -> Any:
    """Return the result of `probe` once it is true; `probe` may be a coroutine function."""
    try:
        async with asyncio.timeout(seconds_max):
            while True:
                found = probe()
                if asyncio.iscoroutine(found):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(CHECK_SECONDS)
    except TimeoutError:
        raise AssertionError(f"not within {seconds_max} s: {what}") from None
