"""A blow against one process of a broker that has load, and what came of it.

`watch_incident` puts the load on and looks for what was lost; a `Victim` is the process, and can
tell when its role is filled again.
"""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.actors.deployments import CHECK_SECONDS, WAIT_SECONDS_MAX, wait_until
from tests.actors.load import Account, Load, doubled_count, pull_all
from tests.actors.supervised_brokers import SupervisedBroker
from tests.compat.name_server_probe import serves
from wakelog.actors.deploy.group import BROKER, NAME_SERVER, SUPERVISOR
from wakelog.actors.ray.options import end_actor

BEFORE_SECONDS = 0.2
"""Load before the blow, so that there is something to lose, and after it."""


BACK_SECONDS_MAX = 60.0
"""A name server is told of the broker at the latest after the period of registrations."""


class Incident(NamedTuple):
    """One process killed or stopped.

    stall_ms: the longest time without any acknowledged send from then on.
    back_ms: until its role was filled again; of a Broker, until sends were acknowledged again.
    noticed_ms: until whoever depends on it knew.
    load_average: of the machine's last minute, which may have had other things to do.
    half_made: whether it left a file half made; only where that was aimed at.
    """

    case: str
    role: str
    transport: str
    number: int
    stall_ms: int
    back_ms: int
    noticed_ms: int | None
    lost: int
    doubled: int
    acknowledged: int
    load_average: float
    half_made: bool | None = None


class Times:
    """When a blow fell and what followed, as the loop's clock says."""

    def __init__(self) -> None:
        self.killed_at = 0.0
        self.noticed_at: float | None = None
        self.back_at: float | None = None

    def begin(self) -> None:
        """The blow falls now."""
        self.killed_at = time.monotonic()


async def watch_incident(
    supervised: SupervisedBroker,
    blow: Callable[[Load, Times], Awaitable[None]],
    *,
    case: str,
    role: str,
    number: int,
    body_bytes: int = 200,
    before_seconds: float = BEFORE_SECONDS,
) -> Incident:
    """Put load on a broker, have the blow dealt, and see that nothing was lost or doubled.

    blow: deals it and returns once everybody is there again, having noted when.
    before_seconds: how long the load is on before, none for a blow that waits for it itself.
    """
    # What others have written before is not to be waited for in the middle of this.
    await asyncio.to_thread(os.sync)
    # A topic of its own each time: bodies are counted from the start in each.
    topic = f"{case}-{role}-{number}-{uuid.uuid4().hex[:8]}"
    load = Load(supervised.address, topic, body_bytes=body_bytes)
    times = Times()
    load.start()
    try:
        await asyncio.sleep(before_seconds)
        await blow(load, times)
        await asyncio.sleep(BEFORE_SECONDS)
    finally:
        account = await load.stop()
    # Before the readback, whose wait would say nothing of the cause.
    assert account.answered_since(times.killed_at), f"refused with {account.refused_codes}"
    queues = await read_back(supervised.address, topic, account)
    stall_end = account.longest_gap_end(times.killed_at)
    back_at = stall_end if times.back_at is None else times.back_at
    noticed_at = times.noticed_at
    return Incident(
        case=case,
        role=role,
        transport=supervised.kind.transport.value,
        number=number,
        stall_ms=round(account.longest_gap_ms(times.killed_at)),
        back_ms=round((back_at - times.killed_at) * 1000),
        noticed_ms=None if noticed_at is None else round((noticed_at - times.killed_at) * 1000),
        lost=len(account.lost(queues)),
        doubled=doubled_count(queues),
        acknowledged=len(account.acknowledged),
        load_average=round(os.getloadavg()[0], 1),
    )


async def read_back(address: str, topic: str, account: Account) -> dict[int, list[bytes]]:
    """Return the queues, once all that was acknowledged is there or could have been."""
    end = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        queues = await pull_all(address, topic)
        if not account.lost(queues) or time.monotonic() >= end:
            return queues
        await asyncio.sleep(CHECK_SECONDS)


class Victim:
    """A role before the blow, so that it can be told when another process fills it."""

    def __init__(self, supervised: SupervisedBroker, role: str) -> None:
        self._supervised = supervised
        self.role = role
        self.process_id = 0
        self._attached_count = 0

    async def note_process(self) -> None:
        """Note which process has the role now."""
        await self._supervised.wait_whole()
        self.process_id = await wait_until(self._living, f"process of {self.role}")
        if self._is_helper:
            self._attached_count = await self._supervised.attached_count(self.role)

    def kill(self, times: Times) -> None:
        """Kill the process."""
        times.begin()
        os.kill(self.process_id, signal.SIGKILL)

    def end_actor(self, times: Times) -> None:
        """End the actor as `ray.kill` does: Ray does not start it again."""
        times.begin()
        end_actor(self._supervised.find(self.role))

    async def wait_back(self, load: Load, times: Times) -> None:
        """Return once another process fills the role and all have each other again."""
        if self.role == BROKER:
            await self._wait_broker(load.account, times)
        elif self._is_helper:
            await self._wait_helper(times)
        else:
            await wait_until(self._is_filled, f"{self.role} back", BACK_SECONDS_MAX)
            times.back_at = time.monotonic()
        await self._supervised.wait_whole()

    @property
    def _is_helper(self) -> bool:
        return self.role not in (BROKER, NAME_SERVER, SUPERVISOR)

    async def _living(self) -> int:
        return await self._supervised.process_id(self.role)

    async def _is_another(self) -> bool:
        return await self._living() not in (0, self.process_id)

    async def _is_filled(self) -> bool:
        if not await self._is_another():
            return False
        if self.role == SUPERVISOR:
            return await self._supervised.is_ready()
        addresses = self._supervised.plan.name_server_address, self._supervised.address
        return await asyncio.get_running_loop().run_in_executor(None, serves, *addresses)

    async def _wait_helper(self, times: Times) -> None:
        async def is_attached_again() -> bool:
            count = await self._supervised.attached_count(self.role)
            if count != self._attached_count and times.noticed_at is None:
                times.noticed_at = time.monotonic()
            return count > self._attached_count

        await wait_until(is_attached_again, f"{self.role} back")
        times.back_at = time.monotonic()

    async def _wait_broker(self, account: Account, times: Times) -> None:
        def noticed() -> float:
            return next((at for at in account.failed_at if at >= times.killed_at), 0.0)

        def is_answered() -> bool:
            return account.answered_since(failed_at)

        failed_at: float = await wait_until(noticed, "a client that notices")
        times.noticed_at = failed_at
        await wait_until(self._is_another, "another Broker")
        await wait_until(is_answered, "a send that is acknowledged")
