"""Processes killed at random moments under load: nothing acknowledged is lost or doubled.

The moments come from a seed, which a failure names. A long run keeps what it measured
(`benchmarks/kills.py`).
"""

import asyncio
import random

import pytest

from benchmarks.kills import note
from tests.actors.load import Load
from tests.actors.strikes import Times, Victim, struck
from tests.actors.supervised_brokers import BROKER_STALL_MS_MAX, ROLES, SupervisedBroker

pytestmark = [pytest.mark.ray, pytest.mark.kill, pytest.mark.slow]

SEED = 20_493

BODY_BYTES = 4_000
"""So large that the log rolls several times while a role is away."""

BACK_MS_MAX = 10_000
"""How long a role may be away on a machine that does other things as well."""

ROUNDS = [0, *(pytest.param(number, marks=pytest.mark.long) for number in range(1, 10))]
"""Each with both transports: two kills a role in every run, twenty in a long one."""


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("role", ROLES)
def test_a_kill_loses_and_doubles_nothing(
    supervised: SupervisedBroker, role: str, number: int, pytestconfig: pytest.Config
) -> None:
    chance = random.Random(f"{SEED} {role} {number}")
    victim = Victim(supervised, role)

    async def kill(load: Load, times: Times) -> None:
        await victim.note_process()
        await asyncio.sleep(chance.uniform(0, 0.2))
        victim.kill(times)
        await victim.wait_back(load, times)

    incident = asyncio.run(
        struck(supervised, kill, case="kill", role=role, number=number, body_bytes=BODY_BYTES)
    )
    if pytestconfig.getoption("--long"):
        note(incident)
    stall_ms_max = BROKER_STALL_MS_MAX if role == "Broker" else supervised.kind.stall_ms_max
    assert incident.acknowledged
    assert (incident.lost, incident.doubled) == (0, 0), f"seed {SEED} {role} {number}"
    assert incident.stall_ms <= stall_ms_max, f"seed {SEED} {role} {number}"
    assert incident.back_ms <= BACK_MS_MAX, f"seed {SEED} {role} {number}"
