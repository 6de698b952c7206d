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

BACK_SECONDS_MAX = 10.0
"""How long a role may be away on a machine that does other things as well."""

ROUNDS = [0, *(pytest.param(number, marks=pytest.mark.long) for number in range(1, 10))]
"""Each with both transports: two kills a role in every run, twenty in a long one."""


def is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("role", ROLES)
def test_a_kill_loses_and_doubles_nothing(
    supervised: SupervisedBroker, role: str, number: int
) -> None:
    topic = f"kill-{role}-{number}"

    async def complete(count: int) -> dict[int, list[bytes]] | None:
        queues = await pull_all(supervised.address, topic)
        return queues if sum(map(len, queues.values())) >= count else None

    async def living() -> int:
        process_id = await supervised.process_id(role)
        return process_id if process_id and is_running(process_id) else 0

    async def main() -> None:
        await supervised.wait_whole()
        process_id = await wait_until(living, f"process of {role}")
        chance = random.Random(f"{SEED} {role} {number}")
        load = Load(supervised.address, topic)
        load.start()
        await asyncio.sleep(chance.uniform(0.1, 0.3))
        killed_at = time.monotonic()
        os.kill(process_id, signal.SIGKILL)
        await asyncio.sleep(chance.uniform(0.1, 0.3))
        assert await wait_until(living, f"{role} back") != process_id
        await supervised.wait_whole()
        assert time.monotonic() - killed_at <= BACK_SECONDS_MAX, f"seed {SEED} {role} {number}"
        await asyncio.sleep(0.1)
        account = await load.stop()
        count = len(account.acknowledged)
        assert count
        queues = await wait_until(lambda: complete(count), "what was acknowledged")
        check_nothing_lost_or_doubled(account, queues)
        stall_ms_max = BROKER_STALL_MS_MAX if role == "Broker" else supervised.kind.stall_ms_max
        assert account.longest_gap_ms(killed_at) <= stall_ms_max, f"seed {SEED} {role} {number}"

    asyncio.run(main())
