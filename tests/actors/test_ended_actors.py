"""Actors that an operator ends by `ray.kill` under load: they are made again, and nothing is lost.

Ray itself starts an actor again only if its process has died.
"""

import asyncio

import pytest

from tests.actors.deployments import wait_until
from tests.actors.load import Load
from tests.actors.strikes import Times, Victim, struck
from tests.actors.supervised_brokers import ROLES, SupervisedBroker
from wakelog.actors.deploy.group import SUPERVISOR

pytestmark = [pytest.mark.ray, pytest.mark.kill, pytest.mark.slow, pytest.mark.long]

MADE_ROLES = [role for role in ROLES if role != SUPERVISOR]


@pytest.mark.parametrize("role", MADE_ROLES)
def test_an_actor_that_was_ended_is_made_again(supervised: SupervisedBroker, role: str) -> None:
    victim = Victim(supervised, role)

    async def end(load: Load, times: Times) -> None:
        await victim.note_process()
        victim.end_actor(times)
        await victim.wait_back(load, times)

    incident = asyncio.run(struck(supervised, end, case="end", role=role, number=0))
    assert incident.acknowledged
    assert (incident.lost, incident.doubled) == (0, 0)


def test_brokers_go_on_until_their_supervisor_is_started_again(
    supervised: SupervisedBroker,
) -> None:
    victim = Victim(supervised, SUPERVISOR)

    async def end(load: Load, times: Times) -> None:
        await victim.note_process()
        victim.end_actor(times)
        await wait_until(lambda: supervised.find(SUPERVISOR) is None, "no Supervisor")
        supervised.make_supervisor_again()
        await supervised.actors.wait_ready(lambda step: None)
        await victim.wait_back(load, times)
        assert supervised.find(SUPERVISOR) is not None

    incident = asyncio.run(struck(supervised, end, case="end", role=SUPERVISOR, number=0))
    assert incident.acknowledged
    assert (incident.lost, incident.doubled) == (0, 0)
