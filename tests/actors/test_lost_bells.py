"""Bells and notes that are lost: everything takes longer, nothing hangs, nothing comes twice.

Each broker loses bells in its own way, and all of them do the same work at the same time, two as
actors and the others on one loop, since starting actors is most of what such a test costs. The
tests look at what came of it.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.actors.bell_broker import bell_broker
from tests.actors.client import Client, records
from tests.actors.deployments import small_plan, wait_until
from tests.actors.load import Account, Load, check_nothing_lost_or_doubled, pull_all
from wakelog.actors.cluster.group import DeploymentPlan
from wakelog.actors.cluster.ray_cluster import RayCluster
from wakelog.actors.links.bells import BellFaults
from wakelog.actors.supervised import SupervisedActors, deployment_plan
from wakelog.broker.housekeeping import LOOK_AFTER_HELD_MS, ROUND_MS_MIN
from wakelog.protocol.codes import ResponseCode
from wakelog.storage.config import FlushDiskType

pytestmark = [pytest.mark.ray, pytest.mark.slow]


class Fault(NamedTuple):
    """How one broker loses bells, and how it flushes."""

    faults: BellFaults
    flush: FlushDiskType


ACTORS = {
    "every bell": Fault(BellFaults(drop_every=1), FlushDiskType.SYNC_FLUSH),
    "every 2nd bell": Fault(BellFaults(drop_every=2), FlushDiskType.SYNC_FLUSH),
}
ON_ONE_LOOP = {
    "every 7th bell": Fault(BellFaults(drop_every=7), FlushDiskType.SYNC_FLUSH),
    "every note": Fault(BellFaults(drop_notes=True), FlushDiskType.SYNC_FLUSH),
    "every bell, flushed in time": Fault(BellFaults(drop_every=1), FlushDiskType.ASYNC_FLUSH),
}
FAULTS = {**ACTORS, **ON_ONE_LOOP}

MESSAGES_COUNT = 6
HOLD_MS = 15_000  # as push consumers of 4.9.3 wait
DELAY_SECONDS = 1.0
LOAD_SECONDS = 1.0

SEND_SECONDS_MAX = 3.0
"""A lost bell of a synchronous flush costs half a second; a machine under load the rest."""

RECEIVE_SECONDS_MAX = 2.0 + (ROUND_MS_MIN + LOOK_AFTER_HELD_MS) / 1000
"""Nobody wakes a held pull: the Broker comes past it on its own round."""


class Outcome(NamedTuple):
    """What one broker's clients saw, and what it said of itself afterwards.

    received_seconds: by body, from before it was sent until a pull that waited for it returned.
    delayed_seconds: until the delayed message was there.
    """

    sent_seconds: list[float]
    received_seconds: dict[bytes, float]
    delayed_bodies: list[bytes]
    delayed_seconds: float
    account: Account
    queues: dict[int, list[bytes]]
    statistics: dict[str, Any]


@pytest.fixture(scope="module")
def outcomes(ray_cluster: RayCluster, tmp_path_factory: Any) -> Iterator[dict[str, Outcome]]:
    plan = _plan_with_faults(tmp_path_factory.mktemp("stores"), ray_cluster.shared_directory)
    actors = SupervisedActors(plan)

    async def whole(directory: Path) -> dict[str, Outcome]:
        await actors.start(lambda what: None)
        as_actors, on_one_loop = await asyncio.gather(_as_actors(actors), _on_one_loop(directory))
        return {**as_actors, **on_one_loop}

    with tempfile.TemporaryDirectory() as short_directory:
        yield asyncio.run(whole(Path(short_directory)))
    assert asyncio.run(actors.stop()), "a store was not left in order"


def _plan_with_faults(stores: Path, shared_directory: Path) -> DeploymentPlan:
    plan = small_plan(stores, is_local=False, broker_count=len(ACTORS))
    found = deployment_plan(plan, shared_directory)
    groups = []
    for group, fault in zip(found.groups, ACTORS.values(), strict=True):
        settings = group.service.settings
        store = msgspec.structs.replace(settings.store, flush_disk_type=fault.flush)
        service = msgspec.structs.replace(
            group.service,
            settings=msgspec.structs.replace(settings, store=store),
            faults=fault.faults,
        )
        groups.append(msgspec.structs.replace(group, service=service))
    return msgspec.structs.replace(found, groups=tuple(groups))


async def _as_actors(actors: SupervisedActors) -> dict[str, Outcome]:
    services = [group.service for group in actors.plan.groups]
    outcomes = await asyncio.gather(
        *(_work(service.settings.broker.broker_addr) for service in services)
    )
    statistics = (await actors.statistics())["brokers"]
    return {
        fault: outcome._replace(statistics=statistics[service.name])
        for fault, service, outcome in zip(ACTORS, services, outcomes, strict=True)
    }


async def _on_one_loop(directory: Path) -> dict[str, Outcome]:
    brokers = {}
    async with AsyncExitStack() as stack:
        patches = stack.enter_context(pytest.MonkeyPatch.context())
        for number, (name, fault) in enumerate(ON_ONE_LOOP.items()):
            (directory / str(number)).mkdir()
            brokers[name] = await stack.enter_async_context(
                bell_broker(
                    directory / str(number),
                    patches,
                    f"flushDiskType={fault.flush.value}",
                    faults=fault.faults,
                )
            )
        outcomes = await asyncio.gather(*(_work(one.client.address) for one in brokers.values()))
        return {
            name: outcome._replace(statistics=broker.broker.statistics())
            for (name, broker), outcome in zip(brokers.items(), outcomes, strict=True)
        }


async def _work(address: str) -> Outcome:
    client = Client(address)
    load = Load(address, "load")
    sent_at: dict[bytes, float] = {}
    receiving = asyncio.ensure_future(_receive(address, sent_at))
    sent_seconds = []
    for number in range(MESSAGES_COUNT):
        body = b"%d" % number
        sent_at[body] = time.monotonic()
        answer = await client.send("waited-for", body)
        assert answer.code == ResponseCode.SUCCESS
        sent_seconds.append(time.monotonic() - sent_at[body])
    load.start()
    await asyncio.sleep(LOAD_SECONDS)
    account = await load.stop()
    began = time.monotonic()
    await client.send("delayed", b"later", properties="DELAY\x011\x02")
    delayed = await wait_until(lambda: _bodies(client, "delayed"), "the delayed message")
    delayed_seconds = time.monotonic() - began
    received_seconds = await receiving
    queues = await wait_until(
        lambda: _complete(address, "load", len(account.acknowledged)), "every queue"
    )
    await client.close()
    return Outcome(
        sent_seconds, received_seconds, delayed, delayed_seconds, account, queues, statistics={}
    )


async def _receive(address: str, sent_at: dict[bytes, float]) -> dict[bytes, float]:
    """Pull as a consumer does, each pull waiting for the next message."""
    client = Client(address)
    seconds: dict[bytes, float] = {}
    while len(seconds) < MESSAGES_COUNT:
        answer = await client.pull("waited-for", len(seconds), hold_ms=HOLD_MS)
        for record in records(answer):
            assert record.body not in seconds, "a message came twice"
            seconds[record.body] = time.monotonic() - sent_at[record.body]
    await client.close()
    return seconds


async def _bodies(client: Client, topic: str) -> list[bytes]:
    return [record.body for record in records(await client.pull(topic, 0))]


async def _complete(address: str, topic: str, count: int) -> dict[int, list[bytes]] | None:
    queues = await pull_all(address, topic)
    return queues if sum(map(len, queues.values())) >= count else None


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_send_is_answered(outcomes: dict[str, Outcome], fault: str) -> None:
    outcome = outcomes[fault]
    assert max(outcome.sent_seconds) < SEND_SECONDS_MAX
    assert outcome.account.refused_codes == {}
    assert outcome.account.acknowledged


def test_a_pull_that_waits_gets_its_message(outcomes: dict[str, Outcome], fault: str) -> None:
    seconds = outcomes[fault].received_seconds
    assert list(seconds) == [b"%d" % number for number in range(MESSAGES_COUNT)]
    assert max(seconds.values()) < RECEIVE_SECONDS_MAX


def test_a_delayed_message_comes_once(outcomes: dict[str, Outcome], fault: str) -> None:
    outcome = outcomes[fault]
    assert outcome.delayed_bodies == [b"later"]
    assert DELAY_SECONDS - 0.05 < outcome.delayed_seconds < DELAY_SECONDS + SEND_SECONDS_MAX


def test_everything_arrives_exactly_once(outcomes: dict[str, Outcome], fault: str) -> None:
    outcome = outcomes[fault]
    check_nothing_lost_or_doubled(outcome.account, outcome.queues)


def test_bells_were_lost_and_calls_helped(outcomes: dict[str, Outcome], fault: str) -> None:
    links = outcomes[fault].statistics["links"]
    if FAULTS[fault].faults.drop_every:
        assert links["bells"]["dropped"] > 0
    if FAULTS[fault].faults.drop_every == 1:
        assert links["bells"]["rung"] == 0
        assert links["references"]["dispatch"] > 0


def test_what_is_durable_is_known_without_bells(outcomes: dict[str, Outcome]) -> None:
    watermarks = outcomes["every bell, flushed in time"].statistics["watermarks"]
    assert watermarks["flushed"] > 0
