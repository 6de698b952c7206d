"""BrokerServices: the clients of one incarnation of the Broker, by the table of services.

    __init__  the store is open: make the clients
    start     attach the services, each as soon as it is there
    stop      ask for nothing more; have every service release the store

Without a service its work waits or is done in the Broker (`SegmentSource`, `FlushClient`).
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.services.client import BrokerContext, ServiceClient, ServiceHandle
from wakelog.actors.services.pull_hold import PullHoldClient
from wakelog.actors.services.session import AttachRequest
from wakelog.actors.services.table import SERVICES, load, lock_bytes, services_of
from wakelog.actors.transport.calls import ServiceCalls, ignore_result
from wakelog.actors.transport.notifications import Note, NotifyOutcome
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.actors.transport.stop_limits import (
    ADDED_RELEASE_SECONDS_MAX,
    RELEASE_SECONDS_MAX,
    RELEASES_SECONDS_MAX,
)
from wakelog.broker.health_values import ActorHealth
from wakelog.broker.trouble import Trouble
from wakelog.network.background import awaited
from wakelog.storage.durability.store_lock import holder_pid
from wakelog.storage.file_system import FileSystem

HOLDER_SECONDS_MAX = 1.0
"""How long a service of a Broker that died may take to release the store before it is killed."""

ATTACH_SECONDS_MAX = 2.0
"""How long a Broker that starts waits for its services before it accepts. A message passes without
them, only later; and while they start, they compete for the processor."""

REFUSED_SECONDS_MAX = 5.0
"""How long a start waits for a service that says why it does not work; then the start fails."""

CHECK_SECONDS = 0.5

Client = TypeVar("Client", bound=ServiceClient)


MakeClient: TypeAlias = Callable[[ServiceHandle], ServiceClient]


async def release_holders(
    plan: ServicePlan, calls_by_service: Mapping[str, ServiceCalls], fs: FileSystem
) -> None:
    """Ask the services of a Broker that died to release its store.

    A service that does not is killed when the store's lock is held.
    """
    if plan.in_one_process:
        return
    requests = [
        awaited(calls_by_service[name].call("release", "release"))
        for name, byte in lock_bytes(plan).items()
        if name in calls_by_service
        and holder_pid(fs, plan.settings.store.paths.lock, byte) is not None
    ]
    if requests:
        await asyncio.wait(requests, timeout=HOLDER_SECONDS_MAX)
        for request in requests:
            request.add_done_callback(ignore_result)


class BrokerServices:
    """See the module. One loop's thread."""

    def __init__(
        self,
        context: BrokerContext,
        calls_by_service: Mapping[str, ServiceCalls],
        makers: Mapping[str, MakeClient],
    ) -> None:
        """Attach nothing yet.

        makers: make the clients that call functions of the Broker; a row names any other.
        """
        self._context = context
        self._calls = calls_by_service
        self.clients: dict[str, ServiceClient] = {}
        for name, row in services_of(context.plan).items():
            make: MakeClient = makers.get(name) or load(row.client)
            self.clients[name] = make(ServiceHandle(name, calls_by_service[name], context))
        context.listen(self._on_notified)

    def get(self, kind: type[Client]) -> Client:
        """Return the client of a class. Raises: LookupError."""
        found = self.find(kind)
        if found is None:
            raise LookupError(f"this broker has no {kind.__name__}")
        return found

    def find(self, kind: type[Client]) -> Client | None:
        """Return the client of a class, None if this broker does not need its service."""
        return next((one for one in self.clients.values() if isinstance(one, kind)), None)

    def start(self, known: Callable[[], AttachRequest]) -> None:
        """Attach the services, each as soon as it is there, with what `known` returns then."""
        for client in self.clients.values():
            client.keep_attached(known)

    def use_settings(self) -> None:
        """Have the services and their clients go by the settings as they are now."""
        for client in self.clients.values():
            client.use_settings()

    async def wait_attached(self) -> None:
        """Return when our own services are attached, or after `ATTACH_SECONDS_MAX`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ATTACH_SECONDS_MAX):
                for name, client in self.clients.items():
                    if name in SERVICES:
                        await client.wait_attached()

    async def wait_unless_refused(self, work: Awaitable[None], kind: type[ServiceClient]) -> None:
        """Wait for work of a service at a start, which would show no reason for its wait.

        Raises: DeploymentFailed, once the service has said for a while why it does not work.
        """
        client, waiting, refused_seconds = self.get(kind), awaited(work), 0.0
        try:
            while not waiting.done():
                await asyncio.wait([waiting], timeout=CHECK_SECONDS)
                trouble = client.refusal
                refused_seconds = 0.0 if trouble is None else refused_seconds + CHECK_SECONDS
                if trouble is not None and refused_seconds >= REFUSED_SECONDS_MAX:
                    cause = f"{client.name} does not work: {trouble.reason}"
                    raise DeploymentFailed(cause, trouble.remedy)
            waiting.result()
        finally:
            waiting.cancel()

    async def stop(self) -> None:
        """Have every service make durable what it holds and release the store.

        It takes at most `RELEASES_SECONDS_MAX` in all; who is late releases it without being heard.
        """
        clients = list(reversed(self.clients.values()))
        for client in clients:
            await client.stop_work()
        loop = asyncio.get_running_loop()
        end_seconds = loop.time() + RELEASES_SECONDS_MAX
        for client in clients:
            is_ours = client.name in SERVICES
            seconds_max = RELEASE_SECONDS_MAX if is_ours else ADDED_RELEASE_SECONDS_MAX
            await client.release(max(min(seconds_max, end_seconds - loop.time()), 0.0))
        for client in clients:
            client.close()
        self._context.closings.close()

    @property
    def troubles(self) -> dict[str, Trouble]:
        """Why services do not do their work, by service; none of those that do."""
        found = {name: client.troubles.first for name, client in self.clients.items()}
        return {name: one for name, one in found.items() if one is not None}

    @property
    def health(self) -> dict[str, ActorHealth]:
        """Which services work for the broker, and how often each has begun to."""
        return {
            name: ActorHealth(one.is_attached, one.attached_count)
            for name, one in self.clients.items()
        }

    def statistics(self, others: Mapping[str, Trouble]) -> dict[str, Any]:
        """Return which services are attached, what crossed, and each client's counters.

        others: what else of the broker does not work.
        """
        clients, notifiers = self.clients, self._context.notifiers
        return {
            "attached": {name: one.is_attached for name, one in clients.items()},
            "troubles": {
                name: {one.reason: {one.remedy: 1}}
                for name, one in {**self.troubles, **others}.items()
            },
            "attached_count": {name: one.attached_count for name, one in clients.items()},
            "references": dict(sum((one.counts for one in self._calls.values()), Counter())),
            "notifications": {
                outcome.value: sum(one.counts[outcome] for one in notifiers)
                for outcome in (NotifyOutcome if notifiers else ())
            },
            "counters": {name: one.statistics() for name, one in clients.items()},
        }

    def _on_notified(self, notes: Note) -> None:
        """Read the watermarks first: a pull that is woken then finds the queues readable."""
        for read_watermark in self._context.watermark_readers:
            read_watermark()
        if notes:
            self.get(PullHoldClient).on_woken([hold_id for (hold_id,) in notes])
