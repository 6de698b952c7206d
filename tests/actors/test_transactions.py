"""Transactions while the Broker, TransactionCheck and producers are killed: each has its outcome.

A third commits at once, a third rolls back, and a third stays open until a producer is asked. What
is killed comes round in turn. When all are ended, consumers have every committed one, once.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from itertools import count, cycle
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.actors.deployments import wait_until
from tests.actors.supervised_brokers import KINDS, SupervisedBroker, start_supervised
from tests.actors.transactions import Account, Producer, delivered, open_count
from wakelog.actors.deploy.group import BROKER
from wakelog.actors.ray.private_ray import RayCluster
from wakelog.network.errors import RemotingError

pytestmark = [pytest.mark.ray, pytest.mark.kill, pytest.mark.slow, pytest.mark.long]

SEED = 40_417
TRANSACTIONS_COUNT = 100_000
PRODUCERS_COUNT = 2
PAUSE_SECONDS = (1.0, 4.0)
CHECK = "TransactionCheck"
PRODUCER = "producer"
BACK_SECONDS_MAX = 30.0
ENDED_SECONDS_MAX = 180.0

SETTINGS = ("transactionCheckInterval=5000", "transactionCheckMax=1000")
"""A question is answered well before it could be asked again, and nothing is given up."""


FILE_SIZES = {"mappedFileSizeCommitLog": str(4 << 20), "mappedFileSizeConsumeQueue": "200000"}


class Soak(NamedTuple):
    """What became of acknowledged half messages. asked: questions that a producer answered."""

    transactions: int
    committed: int
    rolled_back: int
    asked: int
    unclear: int
    lost: int
    doubled: int
    wrong: int
    kills: dict[str, int]
    seconds: int
    load_average: float


class Chaos:
    """Who is killed, one after the other."""

    def __init__(self, supervised: SupervisedBroker, account: Account) -> None:
        self._supervised = supervised
        self._account = account
        self._names = (f"producer-{number}" for number in count())
        self.producers = [self._make_producer() for _ in range(PRODUCERS_COUNT)]
        self.kills = {CHECK: 0, PRODUCER: 0, BROKER: 0}

    async def run(self) -> None:
        """Kill until cancelled."""
        chance = random.Random(SEED)
        for victim in cycle(self.kills):
            await asyncio.sleep(chance.uniform(*PAUSE_SECONDS))
            await (self._kill_producer() if victim == PRODUCER else self._kill(victim))
            self.kills[victim] += 1

    def _make_producer(self) -> Producer:
        producer = Producer(self._supervised.address, next(self._names), self._account)
        producer.start()
        return producer

    async def _kill_producer(self) -> None:
        await self.producers.pop(0).kill()
        self.producers.append(self._make_producer())

    async def _kill(self, role: str) -> None:
        process_id = await self._supervised.process_id(role)
        if process_id:
            os.kill(process_id, signal.SIGKILL)

        async def is_another() -> bool:
            return await self._supervised.process_id(role) not in (0, process_id)

        await wait_until(is_another, f"{role} back", BACK_SECONDS_MAX)


async def soak(supervised: SupervisedBroker, transactions_count: int) -> Soak:
    """Do so many transactions under kills, wait until all are ended, and count the outcomes."""
    begin = time.monotonic()
    account = Account(count())
    chaos = Chaos(supervised, account)
    killing = asyncio.create_task(chaos.run())
    while len(account.acknowledged) < transactions_count and not killing.done():
        await asyncio.sleep(0.1)
    if killing.done():
        killing.result()  # somebody did not come back
    killing.cancel()
    await asyncio.gather(killing, return_exceptions=True)
    await supervised.wait_whole()
    for producer in chaos.producers:
        await producer.stop()

    async def are_all_ended() -> bool:
        try:
            return await open_count(supervised.address) == 0
        except RemotingError:
            return False

    await wait_until(are_all_ended, "an end of every transaction", ENDED_SECONDS_MAX)
    for producer in chaos.producers:
        await producer.kill()
    found = account.compare(await delivered(supervised.address))
    return Soak(
        transactions=len(account.acknowledged),
        unclear=account.unclear_count,
        asked=account.answered_count,
        kills=chaos.kills,
        seconds=round(time.monotonic() - begin),
        load_average=round(os.getloadavg()[0], 1),
        **found._asdict(),
    )


@pytest.mark.timeout(900)
def test_each_of_100_000_transactions_has_its_outcome(
    ray_cluster: RayCluster, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    kind = KINDS["notifications"]
    kind = kind._replace(settings=(*kind.settings, *SETTINGS))
    supervised = start_supervised(kind, ray_cluster, tmp_path, FILE_SIZES)
    try:
        found = asyncio.run(soak(supervised, TRANSACTIONS_COUNT))
    finally:
        asyncio.run(supervised.actors.stop())
    record_property("said", found)
    assert found.transactions >= TRANSACTIONS_COUNT and min(found.kills.values()) >= 3, found
    assert (found.lost, found.doubled, found.wrong) == (0, 0, 0), found
