"""Processes killed at random moments under load: nothing acknowledged is lost or doubled.

The moments come from a seed, which a failure names.
"""

import asyncio
import os
import random
import signal
import time

import pytest

from tests.actors.deployments import wait_until
from tests.actors.load import Load, check_nothing_lost_or_doubled, pull_all
from tests.actors.supervised_brokers import BROKER_STALL_MS_MAX, SupervisedBroker
from wakelog.actors.services import SERVICES

pytestmark = [pytest.mark.ray, pytest.mark.kill, pytest.mark.slow]

SEED = 20_493

ROLES = [*(row.actor_name for row in SERVICES.values()), "NameServer", "Supervisor", "Broker"]


@pytest.mark.parametrize("role", ROLES)
def test_a_kill_loses_and_doubles_nothing(supervised: SupervisedBroker, role: str) -> None:
    topic = f"kill-{role}"

    async def complete(count: int) -> dict[int, list[bytes]] | None:
        queues = await pull_all(supervised.address, topic)
        return queues if sum(map(len, queues.values())) >= count else None

    async def main() -> None:
        await supervised.wait_whole()
        process_id = await wait_until(lambda: supervised.process_id(role), f"process of {role}")
        chance = random.Random(f"{SEED} {role}")
        load = Load(supervised.address, topic)
        load.start()
        await asyncio.sleep(chance.uniform(0.1, 0.3))
        killed_at = time.monotonic()
        os.kill(process_id, signal.SIGKILL)
        await asyncio.sleep(chance.uniform(0.1, 0.3))
        await supervised.wait_whole()
        await asyncio.sleep(0.1)
        account = await load.stop()
        count = len(account.acknowledged)
        assert count
        queues = await wait_until(lambda: complete(count), "what was acknowledged")
        check_nothing_lost_or_doubled(account, queues)
        stall_ms_max = BROKER_STALL_MS_MAX if role == "Broker" else supervised.kind.stall_ms_max
        assert account.longest_gap_ms(killed_at) <= stall_ms_max, f"seed {SEED}"

    asyncio.run(main())
