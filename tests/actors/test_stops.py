"""Processes that hang for a while under load: nothing acknowledged is lost or doubled.

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
import signal
import time

import pytest

from benchmarks.kills import note
from tests.actors.deployments import wait_until
from tests.actors.load import Load
from tests.actors.strikes import Times, Victim, struck
from tests.actors.supervised_brokers import ROLES, SupervisedBroker

pytestmark = [pytest.mark.ray, pytest.mark.kill, pytest.mark.slow]

SECONDS = 2.0
LONG_SECONDS = 10.0
BROKER_SECONDS = 20.0
"""As long as a service may hang; a Broker has 60 s."""

SETTLE_MS = 2_000
"""After a stop of the Broker: clients that gave up connect again."""

SHORT = [("Flush", 0), ("Broker", 0)]
LONG = [(role, number) for role in ROLES for number in range(3)]
"""Each with both transports."""


def stall_ms_max(supervised: SupervisedBroker, role: str, seconds: float) -> float:
    """Return how long no send may be acknowledged while a role is stopped."""
    if role == "Broker":
        return seconds * 1000 + SETTLE_MS
    return supervised.kind.stall_ms_max


def stop_once(supervised: SupervisedBroker, role: str, number: int, seconds: float) -> None:
    victim = Victim(supervised, role)

    async def stop(_load: Load, times: Times) -> None:
        await victim.note_process()
        times.strike()
        os.kill(victim.process_id, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            os.kill(victim.process_id, signal.SIGCONT)
        await wait_until(lambda: supervised.process_id(role), f"{role} again")
        times.back_at = time.monotonic()
        await supervised.wait_whole()

    incident = asyncio.run(struck(supervised, stop, case="stop", role=role, number=number))
    if seconds == LONG_SECONDS:
        note(incident)
    assert incident.acknowledged
    assert (incident.lost, incident.doubled) == (0, 0)
    assert incident.stall_ms <= stall_ms_max(supervised, role, seconds)
    if role == "Broker":
        assert incident.stall_ms >= seconds * 1000  # nobody else answered in its place
    assert asyncio.run(supervised.process_id(role)) == victim.process_id


@pytest.mark.parametrize(("role", "number"), SHORT)
def test_a_short_stop_loses_and_doubles_nothing(
    supervised: SupervisedBroker, role: str, number: int
) -> None:
    stop_once(supervised, role, number, SECONDS)


@pytest.mark.long
@pytest.mark.parametrize(("role", "number"), LONG)
def test_a_stop_loses_and_doubles_nothing(
    supervised: SupervisedBroker, role: str, number: int
) -> None:
    stop_once(supervised, role, number, LONG_SECONDS)


@pytest.mark.long
def test_a_broker_that_was_stopped_for_long_goes_on_as_the_same_process(
    supervised: SupervisedBroker,
) -> None:
    stop_once(supervised, "Broker", len(LONG), BROKER_SECONDS)
