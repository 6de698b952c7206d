"""What the services of one broker are started with: a value of plain parts, the same for all.

Ray keeps it and starts an actor that has died with it again, so it says what holds for the broker's
whole life: settings, directories, the transport. What changes (an epoch, positions) comes with
`attach`.
"""

from __future__ import annotations

import os
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from wakelog.actors.transport.notifications import NotificationFaults
from wakelog.broker.config_file import BrokerSettings
from wakelog.telemetry.logs import LogFormat, LogLevel


class Transport(StrEnum):
    """How progress travels between the actors of a broker."""

    NOTIFICATIONS = "notifications"
    REFERENCES = "references"


class ServicePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One broker: who it is, where its files are, how its services talk.

    bind_host: the interface its ports are taken on.
    runtime_directory: words, notifications and sockets; private, short, gone with the broker.
    log_directory: written to once the broker holds its store's lock.
    memory_directory: where a transient pool is made.
    in_one_process: the services are objects of one process, each called in a thread of its own.
    faults: what a test wants to go wrong with its notifications.
    added_services: services of others, `module:name` by name.
    """

    settings: BrokerSettings
    bind_host: str
    transport: Transport
    runtime_directory: str
    log_directory: str
    memory_directory: str
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.TEXT
    in_one_process: bool = False
    faults: NotificationFaults = NotificationFaults()
    added_services: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The broker's name."""
        return self.settings.broker.broker_name

    @property
    def watermarks_path(self) -> Path:
        """The path of the page of words."""
        return Path(self.runtime_directory, "words")

    @property
    def has_notifications(self) -> bool:
        """Whether progress travels by words and notifications."""
        return self.transport is Transport.NOTIFICATIONS and not self.in_one_process

    def socket_path(self, service: str) -> Path:
        """Return the path of a service's notification."""
        return Path(self.runtime_directory, f"{service}.notification")

    def to_builtins(self) -> dict[str, Any]:
        """Return what an actor's constructor takes."""
        return dict(msgspec.to_builtins(self))


def read_plan(plan: dict[str, Any]) -> ServicePlan:
    """Return the plan that an actor was constructed with."""
    return msgspec.convert(plan, ServicePlan)


def memory_directory() -> str:
    """Return where files live in memory: shared memory where there is some, as on Linux."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
