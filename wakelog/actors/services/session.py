"""What a service holds from one attach to the next, or to `release`.

A session is for one incarnation of the Broker. It holds the service's byte of the store's lock and
the epoch; with notifications also the shared watermarks and the service's socket. A service without
a session touches no file.

Invariants:
- a service writes the store only while its session holds the lock byte.
- the byte is released last, after everything that the service registered with `on_release`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, Protocol, TypeVar
from uuid import UUID

import msgspec

from wakelog.actors.services.table import lock_bytes
from wakelog.actors.transport.notifications import Note, NotificationSocket, Notifier
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.actors.transport.shared_watermarks import NoSharedWatermarks, SharedWatermarks
from wakelog.storage.durability.store_lock import StoreLock
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.telemetry.logs import configure_logs

BROKER: Final = "broker"
"""The Broker's name among the services, for its socket and its logs."""


class _Closeable(Protocol):
    def close(self) -> object: ...


Resource = TypeVar("Resource", bound=_Closeable)


class AttachRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the Broker knows when it attaches a service.

    delay_positions: the queue offset of the next message to deliver, by delay level.
    clean_exit: whether the Broker before this one stopped in order.
    dispatch_from: where recovery says that dispatch begins; None once Reput has dispatched for
        this Broker.
    """

    epoch: int
    store_id: str
    appended: int
    committed: int
    flushed: int
    readable: int
    dispatched: int
    delay_positions: dict[int, int]
    clean_exit: bool = False
    dispatch_from: int | None = None


class Refused(Exception):
    """A service does not do what was asked; plain text only, because it crosses processes."""


class ServiceSession:
    """What a service holds while it is attached."""

    def __init__(
        self, plan: ServicePlan, service: str, request: AttachRequest, fs: FileSystem
    ) -> None:
        """Take the lock byte and map the shared watermarks.

        Raises: Refused; then nothing is held.
        """
        self.epoch = request.epoch
        self._plan = plan
        self._service = service
        self._watermarks: SharedWatermarks | None = None
        self._releases = ExitStack()
        if not plan.in_one_process:
            open_logs(plan, service, self.epoch)
        try:
            if (lock_byte := lock_bytes(plan).get(service)) is not None:
                lock = StoreLock(fs, plan.settings.store.paths.lock, lock_byte)
                self.on_release(lock.release)
            if plan.has_notifications:
                mapped = SharedWatermarks(plan.watermarks_path, UUID(request.store_id))
                self._watermarks = self.closing(mapped)
        except (StoreError, NoSharedWatermarks) as error:
            self.close()
            raise Refused(str(error)) from None

    @property
    def has_notifications(self) -> bool:
        """Whether progress travels by shared watermarks and notifications."""
        return self._watermarks is not None

    @property
    def watermarks(self) -> SharedWatermarks | None:
        """The shared watermarks; None by reference, and after another Broker replaced them."""
        shared = self._watermarks
        return None if shared is None or shared.is_replaced else shared

    def on_release(self, release: Callable[[], object]) -> None:
        """Call `release` when the session ends, before what was registered earlier."""
        self._releases.callback(release)

    def closing(self, resource: Resource) -> Resource:
        """Close a resource when the session ends, before what was registered earlier."""
        return self._releases.enter_context(closing(resource))

    def listen(self, on_notified: Callable[[Note], None]) -> None:
        """Call `on_notified` on this loop each time notifications come. Raises: Refused."""
        try:
            receiver = NotificationSocket(self._plan.socket_path(self._service))
        except OSError as error:
            raise Refused(str(error)) from None
        self.closing(receiver).listen(on_notified)

    def notifier_to(self, service: str) -> Notifier:
        """Return a notifier of another service, which ends with the session."""
        return self.closing(Notifier(self._plan.socket_path(service), self._plan.faults))

    def close(self) -> None:
        """Release everything, the lock byte last."""
        self._releases.close()


def open_logs(plan: ServicePlan, service: str, epoch: int) -> None:
    """Let this process write its part of the broker's logs."""
    configure_logs(
        Path(plan.log_directory),
        actor=service,
        epoch=epoch,
        log_format=plan.log_format,
        level=getattr(logging, plan.log_level.name),
    )
