"""Start, then nothing, with Ray: the cells of `test_start_then_nothing`, by the machine's clock.

The first round of retention comes a minute after the start.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.actors.debts import (
    DEBTS,
    OTHER_DEBTS,
    Due,
    Seen,
    Waiting,
    age_first_segment,
    ask,
    owe,
    see,
    unpaid,
)
from tests.actors.deployments import wait_until
from tests.actors.supervised_brokers import SLAVES, Kind, SupervisedBroker, start_supervised
from wakelog.actors.deploy.group import BROKER
from wakelog.actors.ray.private_ray import RayCluster
from wakelog.actors.transport.service_plan import Transport

pytestmark = [pytest.mark.ray, pytest.mark.kill, pytest.mark.slow, pytest.mark.long]

DELAY_SECONDS = 40
"""A broker is back before; the pull is held from a few seconds before on."""

HELD_SECONDS = 8
SOON_SECONDS_MAX = 15.0
LATER_SECONDS_MAX = 110.0

SETTINGS = (
    SLAVES,
    f"messageDelayLevel=1s 1s {DELAY_SECONDS}s",
    "transactionTimeOut=1",
    "transactionCheckInterval=5000",
    "deleteWhen=" + ";".join(f"{hour:02}" for hour in range(24)),
)
POOL = ("transientStorePoolEnable=true", "transientStorePoolSize=3")
SEGMENTS = {"mappedFileSizeCommitLog": str(1 << 20)}

Again = Callable[[SupervisedBroker, RayCluster, Path], Coroutine[Any, Any, SupervisedBroker]]


async def restart(broker: SupervisedBroker, cluster: RayCluster, store: Path) -> SupervisedBroker:
    """Stop and start in order."""
    assert await broker.actors.stop()
    return await asyncio.to_thread(start_supervised, broker.kind, cluster, store, SEGMENTS)


async def kill(broker: SupervisedBroker, _cluster: RayCluster, _store: Path) -> SupervisedBroker:
    """Kill the Broker, and wait for the next."""
    process_id = await broker.process_id(BROKER)
    os.kill(process_id, signal.SIGKILL)

    async def is_back() -> bool:
        return await broker.process_id(BROKER) not in (0, process_id)

    await wait_until(is_back, "another Broker")
    await broker.wait_whole()
    return broker


@pytest.mark.timeout(400)
@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize("again", [restart, kill])
def test_what_is_due_after_a_start_is_done(
    ray_cluster: RayCluster, tmp_path: Path, transport: Transport, again: Again
) -> None:
    kind = Kind(transport, (*SETTINGS, *POOL), 0)
    store = tmp_path / "store"
    broker = start_supervised(kind, ray_cluster, store, SEGMENTS)
    try:
        due_seconds = time.monotonic() + DELAY_SECONDS
        asyncio.run(owe(broker.address))
        saved = store / "config/consumerOffset.json"
        asyncio.run(wait_until(saved.exists, "the offset on the disk"))
        broker = asyncio.run(again(broker, ray_cluster, store))
        age_first_segment(store / "commitlog")
        assert asyncio.run(unpaid_of(broker, store / "commitlog", due_seconds)) == []
    finally:
        asyncio.run(broker.actors.stop())


async def unpaid_of(broker: SupervisedBroker, log: Path, due_seconds: float) -> list[str]:
    """Let time pass, and return what is not paid then."""
    debts = DEBTS | OTHER_DEBTS
    await asyncio.sleep(due_seconds - HELD_SECONDS - time.monotonic())

    async def seen() -> Seen | None:
        brokers = (await broker.actors.statistics()).get("brokers", {})
        found = brokers.get("broker-a", {})
        services = found.get("services", {})
        if not (found and all(services.values())):
            return None  # one has not answered in time
        return see(found, services, log, waiting)

    async def wait_paid(due: Due, seconds_max: float) -> list[str]:
        async def is_paid() -> bool:
            found = await seen()
            return found is not None and not unpaid(debts, due, found)

        with suppress(AssertionError):
            await wait_until(is_paid, due.name, seconds_max)
        return unpaid(debts, due, await wait_until(seen, "an answer of every service"))

    with closing(Waiting(broker.address, has_slave=True)) as waiting:
        found = await wait_paid(Due.SOON, SOON_SECONDS_MAX)
        found += await wait_paid(Due.LATER, LATER_SECONDS_MAX)
        last = await ask(broker.address, await wait_until(seen, "an answer of every service"))
        return found + unpaid(debts, Due.ASKED, last)
