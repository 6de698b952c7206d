"""Processes killed, ended and stopped under load: nothing acknowledged is lost or doubled.

`BLOWS` says what is done to a process, and `VICTIMS` whom it meets and how often. Each day that is
once a role, by one transport in turn. In `./dev long` it is more often, by both. Moments come from
a seed, which a failure names. Ray itself starts an actor again only if its process has died, not if
it was ended.

A process that is stopped holds its locks and its connections, and goes on later where it was, with
what it believed then. What is expected meanwhile:

    Broker      clients wait, time out and send again; it goes on as the same process, with its lock
                and its epoch, so there never is a second one. (The Supervisor kills one that hangs
                for a minute, and then another starts.)
    Flush       synchronous flush: the Broker syncs through descriptions of its own
    Commit      the Broker copies what is due by itself; Commit, once it goes on, must not copy what
                a buffer holds by then into the segment that it held before
    Allocate    the Broker makes segments by itself; Allocate, once it goes on, must not make one
                that was written meanwhile
    the others  sends do not need them; what they do waits
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import pytest

from tests.actors.deployments import wait_until
from tests.actors.kill_incidents import Times, Victim, watch_incident
from tests.actors.load import Load
from tests.actors.supervised_brokers import BROKER_STALL_MS_MAX, ROLES, SupervisedBroker
from wakelog.actors.deploy.group import SUPERVISOR

pytestmark = [
    pytest.mark.ray,
    pytest.mark.kill,
    pytest.mark.slow,
    pytest.mark.daily("in turn"),
]

SEED = 20_493
LARGE_BYTES = 4_000
"""So large that the log rolls several times while a role is away."""

BACK_MS_MAX = 10_000
"""How long a role may be away on a machine that does other things as well."""

SETTLE_MS = 2_000
"""After a stop of the Broker: clients that gave up connect again."""

Deal = Callable[[SupervisedBroker, Victim, Load, Times], Awaitable[None]]


async def kill(_supervised: SupervisedBroker, victim: Victim, load: Load, times: Times) -> None:
    """Kill it, and wait until another process fills its role."""
    victim.kill(times)
    await victim.wait_back(load, times)


async def end(supervised: SupervisedBroker, victim: Victim, load: Load, times: Times) -> None:
    """End its actor as `ray.kill` does: it is made again, the Supervisor by an operator."""
    victim.end_actor(times)
    if victim.role == SUPERVISOR:
        await wait_until(lambda: supervised.find(SUPERVISOR) is None, "no Supervisor")
        supervised.make_supervisor_again()
        await supervised.actors.wait_ready(lambda step: None)
    await victim.wait_back(load, times)
    assert supervised.find(victim.role) is not None


async def stop(
    supervised: SupervisedBroker, victim: Victim, _load: Load, times: Times, *, seconds: float
) -> None:
    """Stop it, and let it go on as the same process."""
    times.begin()
    os.kill(victim.process_id, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        os.kill(victim.process_id, signal.SIGCONT)
    await wait_until(lambda: supervised.process_id(victim.role), f"{victim.role} again")
    times.back_at = time.monotonic()
    await supervised.wait_whole()
    assert await supervised.process_id(victim.role) == victim.process_id


class Blow(NamedTuple):
    """What is done to a process. stopped_seconds: how long it hangs, 0 for one that dies."""

    deal: Deal
    body_bytes: int = 200
    stopped_seconds: float = 0.0


BLOWS = {
    "kill": Blow(kill, body_bytes=LARGE_BYTES),
    "end": Blow(end),
    "short-stop": Blow(partial(stop, seconds=2.0), stopped_seconds=2.0),
    "stop": Blow(partial(stop, seconds=10.0), stopped_seconds=10.0),
    "long-stop": Blow(partial(stop, seconds=20.0), stopped_seconds=20.0),
}
"""The longest is as long as a service may hang; a Broker has 60 s."""

VICTIMS = [
    *(("kill", role, number, number > 0) for role in ROLES for number in range(10)),
    *(("end", role, 0, True) for role in ROLES),
    *(("short-stop", role, 0, False) for role in ("Flush", "Broker")),
    *(("stop", role, number, True) for role in ROLES for number in range(3)),
    ("long-stop", "Broker", 0, True),
]


@pytest.mark.parametrize(
    ("case", "role", "number"),
    [pytest.param(*row, marks=[pytest.mark.long] if is_long else []) for *row, is_long in VICTIMS],
)
def test_a_blow_loses_and_doubles_nothing(
    supervised: SupervisedBroker,
    case: str,
    role: str,
    number: int,
    record_property: Callable[[str, object], None],
    pytestconfig: pytest.Config,
) -> None:
    chance, blow = random.Random(f"{SEED} {role} {number}"), BLOWS[case]
    victim = Victim(supervised, role)

    async def kill(load: Load, times: Times) -> None:
        await victim.note_process()
        await asyncio.sleep(chance.uniform(0, 0.2))
        await blow.deal(supervised, victim, load, times)

    incident = asyncio.run(
        watch_incident(
            supervised, kill, case=case, role=role, number=number, body_bytes=blow.body_bytes
        )
    )
    if pytestconfig.getoption("--long"):
        record_property("said", incident)
    where = f"seed {SEED} {case} {role} {number}"
    assert incident.acknowledged
    assert (incident.lost, incident.doubled) == (0, 0), where
    stall_ms_max: float = supervised.kind.stall_ms_max
    if role == "Broker":
        stopped_ms = blow.stopped_seconds * 1000
        stall_ms_max = stopped_ms + SETTLE_MS if stopped_ms else BROKER_STALL_MS_MAX
        assert incident.stall_ms >= stopped_ms, "another one answered in its place"
    if case != "end":
        assert incident.stall_ms <= stall_ms_max, where
    if case == "kill":
        assert incident.back_ms <= BACK_MS_MAX, where
