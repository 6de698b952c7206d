"""A service's end of the links, from one `attach` to the next or to `release`.

It holds what the service needs while it works for one incarnation of the Broker: its byte of the
store's lock, the epoch, and with notifications the page of words and its own notification. A
service without a station works for nobody and touches no file.

Invariants:
- a service that writes the store does so only between taking its byte and giving it back.
- a call that carries another epoch than the station's changes nothing: it comes from a Broker that
  has died, or is meant for one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any
from uuid import UUID

from wakelog.actors.services.broker_events import AttachRequest
from wakelog.actors.transport.notifications import NotificationSender, NotificationSocket, Notifier
from wakelog.actors.transport.service_plan import ServicePlan
from wakelog.actors.transport.shared_watermarks import NoSharedWatermarks, SharedWatermarks
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.store_lock import BROKER_BYTE, StoreLock
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem
from wakelog.telemetry.logs import configure_logs

BROKER_SERVICE = "broker"


class LockByte(IntEnum):
    """Bytes of the store's lock file, one for each service that writes the store."""

    BROKER = BROKER_BYTE
    REPUT = 1
    ALLOCATE_MAPPED_FILE = 2
    COMMIT = 3
    RETENTION = 4
    FLUSH = 5


class Refused(Exception):
    """A service does not do what it was asked to; plain text, since it travels between actors."""


class ServiceSession:
    """What a service holds while it is attached."""

    def __init__(
        self,
        plan: ServicePlan,
        service: str,
        attachment: AttachRequest,
        *,
        fs: FileSystem,
        store: StoreConfig,
        lock_byte: LockByte | None = None,
        answer: Callable[[list[tuple[Any, ...]]], None] | None = None,
    ) -> None:
        """Take the byte, map the page, hang up the notification.

        answer: called on the loop when the notification rang; None for a service without one.

        Raises: Refused.
        """
        self.epoch = attachment.epoch
        self._plan = plan
        self._lock: StoreLock | None = None
        self._page: SharedWatermarks | None = None
        self._notification: NotificationSocket | None = None
        self._lines: list[Notifier] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        if not plan.in_one_process:
            open_logs(plan, service, attachment.epoch)
        try:
            if lock_byte is not None:
                self._lock = StoreLock(fs, store.paths.lock, lock_byte)
            if plan.has_notifications and answer is not None:
                self._loop = asyncio.get_running_loop()
                self._page = SharedWatermarks(plan.watermarks_path, UUID(attachment.store_id))
                self._notification = NotificationSocket(plan.socket_path(service))
                self._notification.listen(self._loop, answer)
        except (StoreError, NoSharedWatermarks, OSError) as error:
            self.close()
            raise Refused(str(error)) from None

    @property
    def has_notifications(self) -> bool:
        """Whether progress is told by notifications."""
        return self._page is not None

    @property
    def has_loop(self) -> bool:
        """Whether the service runs on an event loop: an actor does, in one process it does not."""
        return not self._plan.in_one_process

    @property
    def page(self) -> SharedWatermarks | None:
        """The page of words; None without notifications, and once another Broker replaced it."""
        return None if self._page is None or self._page.is_replaced else self._page

    def notifier_to(self, service: str) -> Notifier:
        """Return a line to another service's notification, which this station closes."""
        assert self._loop is not None
        sender = NotificationSender(self._plan.socket_path(service), self._plan.faults)
        line = Notifier(sender, self._loop)
        self._lines.append(line)
        return line

    def check(self, epoch: int) -> None:
        """Refuse a call of another epoch. Raises: Refused."""
        if epoch != self.epoch:
            raise Refused(f"epoch {epoch} was asked for and {self.epoch} is attached")

    def close(self) -> None:
        """Take the notification down, unmap the page, and give the byte back last."""
        for line in self._lines:
            line.close()
        self._lines.clear()
        if self._notification is not None:
            self._notification.close(self._loop)
            self._notification = None
        if self._page is not None:
            self._page.close()
            self._page = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def open_logs(plan: ServicePlan, service: str, epoch: int) -> None:
    """Let this process write its part of the broker's logs."""
    configure_logs(
        Path(plan.log_directory),
        actor=service,
        epoch=epoch,
        log_format=plan.log_format,
        level=getattr(logging, plan.log_level.name),
    )


def attached(**answer: Any) -> dict[str, Any]:
    """Return what `attach` answers: this process, and what the service has to say."""
    return {"process_id": os.getpid(), **answer}
