"""One actor that the Supervisor watches: its handle, its process, and when it answered last.

For a process of this node the kernel reports its death at once, and a signal ends it however it
hangs. The kernel also says whether it is busy (`process_activity`): then it is not killed before
`BUSY_SECONDS_MAX`. A process id of another node means nothing here. There the actor is pinged every
`PING_SECONDS`, and Ray kills it.

Source: none upstream.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ray.exceptions import RayActorError

from wakelog.actors.deploy.group import BROKER
from wakelog.actors.deploy.process_activity import Sample, activity, read_sample
from wakelog.actors.ray.options import own_node_id, restart_actor
from wakelog.actors.transport.process_death import wait_death

HUNG_SECONDS_MAX = 20.0
"""An actor that does not answer for so long is killed."""

BROKER_HUNG_SECONDS_MAX = 60.0
"""A Broker may be busy with a slow disk."""

BUSY_SECONDS_MAX = 600.0
"""An actor that is busy, and does not answer for so long, is killed too: it may be in a loop."""

PING_SECONDS = 1.0


@dataclass(eq=False)
class SupervisedProcess:
    """One actor and the process that it runs in.

    broker_name, service: None where the actor belongs to no broker or is no service.
    make: returns its handle, of a new actor if there is none; it may wait for Ray.
    node_id: Ray's name for its node; a service lives on the node of its broker.
    store_id, notices: what a broker answered when it was started last.
    """

    kind: str
    make: Callable[[], Any]
    broker_name: str | None = None
    service: str | None = None
    store_id: str | None = None
    notices: list[str] = field(default_factory=list)
    process_id: int = 0
    node_id: str | None = None
    answered_at: float = field(default_factory=time.monotonic)
    seen: Sample | None = None
    restart_count: int = 0
    killed_count: int = 0

    def __post_init__(self) -> None:
        """Make the actor."""
        self.handle = self.make()

    async def make_again(self) -> None:
        """Make the actor again if Ray does not: an operator may have ended it by `ray.kill`."""
        self.handle = await asyncio.to_thread(self.make)

    @property
    def hung_seconds_max(self) -> float:
        """How long it may stay without an answer."""
        return BROKER_HUNG_SECONDS_MAX if self.kind == BROKER else HUNG_SECONDS_MAX

    @property
    def is_here(self) -> bool:
        """Whether its process is one of this node."""
        return self.node_id == own_node_id()

    def on_answer(self, process_id: int) -> None:
        """Remember that it answered, and as which process."""
        self.process_id = process_id
        self.answered_at = time.monotonic()
        self.seen = read_sample(process_id) if self.is_here else None

    def doing(self) -> str | None:
        """Say what it has been busy with since the last look; None for nothing, or elsewhere."""
        before, self.seen = self.seen, read_sample(self.process_id) if self.is_here else None
        if before is None or self.seen is None:
            return None
        return activity(before, self.seen)

    def is_hung(self, doing: str | None) -> bool:
        """Return whether it has not answered for too long, for an actor that does this."""
        silent_seconds = time.monotonic() - self.answered_at
        return silent_seconds >= (self.hung_seconds_max if doing is None else BUSY_SECONDS_MAX)

    async def wait_death(self) -> None:
        """Return once the process that answered last has died, or may have."""
        process_id = self.process_id
        if self.is_here:
            died: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            await wait_death(process_id, died)
            return
        while True:
            await asyncio.sleep(PING_SECONDS)
            try:
                if await self.handle.ping.remote() != process_id:
                    return
            except RayActorError:
                return

    def kill(self) -> None:
        """Kill a process that hangs; Ray starts the actor again."""
        self.killed_count += 1
        self.answered_at = time.monotonic()
        self.seen = None
        if not self.is_here:
            restart_actor(self.handle)
        elif self.process_id:
            with suppress(ProcessLookupError):
                os.kill(self.process_id, signal.SIGKILL)
