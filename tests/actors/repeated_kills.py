"""Repeated kills: every process of a broker, again and again under load, at moments of its own.

Each role has a killer, which kills its process at seeded moments. A moment is random, or on a beat
that all killers share, so that several die at once. Or it is as soon as the process answers, so
that it dies again while it starts. The Broker's own killer begins after each of the others has
died some times, and sometimes kills while the Broker recovers.

No stall is measured: `kill_incidents.py` does. A process that is not back within
`BACK_SECONDS_MAX`, or a broker that is not whole within `WHOLE_SECONDS_MAX` after the last kill,
fails.
"""

import asyncio
import os
import random
import signal
import time

from tests.actors.client import Client, records
from tests.actors.deployments import wait_until
from tests.actors.load import PAUSE_SECONDS, QUEUES_COUNT, Account
from tests.actors.supervised_brokers import SupervisedBroker
from wakelog.actors.deploy.group import BROKER
from wakelog.network.errors import RemotingError
from wakelog.protocol.codes import ResponseCode

KILLS_COUNT = 10
"""Of each role, in one series."""

CALM_KILLS_COUNT = 3
"""So many of them while the Broker lives, which does the work of those that are away."""

BEAT_SECONDS = 0.5
CALM_PAUSE_SECONDS_MAX = 0.4
PAUSE_SECONDS_MAX = 1.5
"""Before a kill of a helper: those that are left last about as long as the Broker's."""

RECOVERY_SECONDS = 0.8
"""A Broker that answers since less is likely to recover its store."""

BACK_SECONDS_MAX = 30.0
"""Ten processes that start at once on a small machine take some seconds."""

WHOLE_SECONDS_MAX = 60.0
HOLD_MS = 500


class Killers:
    """Who kills, and when whom they killed was back."""

    def __init__(
        self, supervised: SupervisedBroker, account: Account, seed: str, kills_count: int
    ) -> None:
        """Kill nobody yet. `account` tells when sends are acknowledged."""
        self._supervised = supervised
        self._account = account
        self._seed = seed
        self._kills_count = kills_count
        self.back_ms: dict[str, list[int]] = {role: [] for role in supervised.kind.roles}
        self.last_at = 0.0

    async def kill_all(self) -> None:
        """Kill every role so many times, and return when each of them is back."""
        async with asyncio.TaskGroup() as killers:
            for role in self._supervised.kind.roles:
                killers.create_task(self._kill_role(role))

    async def _kill_role(self, role: str) -> None:
        chance = random.Random(f"{self._seed} {role}")
        if role == BROKER:
            await wait_until(self._is_calm_over, "the calm", WHOLE_SECONDS_MAX)
        process_id = await self._another(role, 0)
        back = self.back_ms[role]
        while len(back) < self._kills_count:
            await (self._broker_moment(chance) if role == BROKER else self._moment(role, chance))
            if not _kill(process_id):
                # A new Broker ends the helpers of the one before it.
                process_id = await self._another(role, process_id)
                continue
            killed_at = self.last_at = time.monotonic()
            process_id = await self._another(role, process_id)
            back.append(round((time.monotonic() - killed_at) * 1000))

    async def _moment(self, role: str, chance: random.Random) -> None:
        """Wait for the moment of a helper's next death."""
        kind = chance.random()
        calm = len(self.back_ms[role]) < CALM_KILLS_COUNT
        pause = chance.uniform(0, CALM_PAUSE_SECONDS_MAX if calm else PAUSE_SECONDS_MAX)
        if kind < 0.3:
            return  # it has just answered, and nobody has attached it yet
        await asyncio.sleep(pause)
        if kind < 0.6:
            await _beat()

    async def _broker_moment(self, chance: random.Random) -> None:
        """Wait for the moment of the Broker's next death."""
        kind = chance.random()
        pause = chance.uniform(0, RECOVERY_SECONDS)
        if kind >= 0.3:
            await self.wait_acknowledged()
        await asyncio.sleep(pause)
        if kind >= 0.65:
            await _beat()

    async def wait_acknowledged(self) -> None:
        """Return once a send is acknowledged that was not yet when this was called."""
        since = time.monotonic()
        await wait_until(
            lambda: self._account.answered_since(since), "an answer", WHOLE_SECONDS_MAX
        )

    async def _another(self, role: str, process_id: int) -> int:
        """Return the process that fills a role, once it is another one."""

        async def found() -> int:
            living = await self._supervised.process_id(role)
            return 0 if living == process_id else living

        return int(await wait_until(found, f"{role} back, seed {self._seed}", BACK_SECONDS_MAX))

    def _is_calm_over(self) -> bool:
        return all(
            len(back) >= CALM_KILLS_COUNT for role, back in self.back_ms.items() if role != BROKER
        )


class Follower:
    """A consumer of one queue that waits for what comes next, whatever happens."""

    def __init__(self, address: str, topic: str, queue_id: int) -> None:
        """Connect to nobody yet."""
        self.bodies: list[bytes] = []
        self.moved_count = 0
        self._address = address
        self._topic = topic
        self._queue_id = queue_id

    async def run(self) -> None:
        """Pull until cancelled."""
        client = Client(self._address)
        try:
            while True:
                try:
                    answer = await client.pull(
                        self._topic, len(self.bodies), queue_id=self._queue_id, hold_ms=HOLD_MS
                    )
                except RemotingError:
                    await client.close()
                    client = Client(self._address)
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                if answer.code == ResponseCode.SUCCESS:
                    self.bodies += [record.body for record in records(answer)]
                elif answer.code == ResponseCode.PULL_OFFSET_MOVED:
                    self.moved_count += 1
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await client.close()

    def changed_count(self, queues: dict[int, list[bytes]]) -> int:
        """Return how many of those that it was given are not there, or are others now."""
        there = queues[self._queue_id]
        found = sum(a != b for a, b in zip(self.bodies, there, strict=False))
        return found + max(0, len(self.bodies) - len(there))


def followers(address: str, topic: str) -> list[Follower]:
    """Return one for each queue."""
    return [Follower(address, topic, queue_id) for queue_id in range(QUEUES_COUNT)]


def _kill(process_id: int) -> bool:
    try:
        os.kill(process_id, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


async def _beat() -> None:
    """Return at the next beat, at which all who wait for it go on."""
    await asyncio.sleep(BEAT_SECONDS - asyncio.get_running_loop().time() % BEAT_SECONDS)
