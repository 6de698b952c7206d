"""What the services of one broker are started with: plain values, the same for all of them.

Ray keeps the plan and starts an actor that died with it again. So the plan holds what is true for
the broker's whole life: settings, directories, the transport. What changes (epoch, positions) comes
with each `attach`.
"""

import os
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from wakelog.actors.transport.notifications import NotificationFaults
from wakelog.broker.config_file import BrokerSettings
from wakelog.nameserver.config import NameServerSettings
from wakelog.network.tls_properties import TlsSource
from wakelog.telemetry.logs import LogFormat, LogLevel
from wakelog.typed_values import convert


class Transport(StrEnum):
    """How progress travels between the actors of a broker."""

    NOTIFICATIONS = "notifications"
    REFERENCES = "references"


class ServiceRow(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is particular to one service.

    actor_name: RocketMQ's name for it, which its actor has, too.
    service: `module:Class` of a `services.service.Service`, imported where it runs.
    client: `module:Class` of the Broker's `services.client.ServiceClient` for it.
    lock_byte: its byte of the store's lock file, None if it does not write the store. A byte must
        never change: brokers of other versions lock the same file.
    needed_when: the property of StoreConfig that says whether a broker needs it; "" for always.
    core: `module:name` of what another package offers, "" for our own services.
    """

    actor_name: str
    service: str
    client: str = "wakelog.actors.services.client:ServiceClient"
    lock_byte: int | None = None
    needed_when: str = ""
    core: str = ""


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a process writes its logs, and which lines."""

    log_directory: str
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.TEXT


class NameServerPlan(LogSettings, frozen=True, kw_only=True):
    """One name server.

    bind_host: the interface of its port. advertised_host: by which clients reach it.
    tls: where its TLS settings are.
    trusted_addresses: see `broker.access.administrators`.
    accounts_home: the folder whose `conf` has the files of accounts; "" if there are none.
    """

    settings: NameServerSettings
    bind_host: str
    advertised_host: str
    tls: TlsSource = TlsSource()
    trusted_addresses: str = ""
    accounts_home: str = ""


class ServicePlan(LogSettings, frozen=True, kw_only=True):
    """One broker: its name, its files, and how its services reach each other.

    deployed_name: its own within the deployment; "" if `brokerName` is that already.
    bind_host: the interface of its ports.
    tls: where its TLS settings are.
    trusted_addresses: see `broker.access.administrators`.
    takes_over_name: it starts although its name is registered from another address.
    access_key: of the account that signs the requests of the broker itself; "" for none.
    register: the address of the register that decides who is master; "" if the settings do. With a
        register the settings are those of a master.
    replica_id: this broker's in its group, from 1 up; 0 without a register.
    names_own_node: whether clients and members reach this broker at the address of the node on
        which it lives, whatever the settings say.
    runtime_directory: watermarks and sockets; private, with a short path, removed with the broker;
        "" until a deployment makes it.
    log_directory: written to once the broker holds its store's lock.
    memory_directory: where a transient pool is made.
    in_one_process: the services are objects of one process, each called in its own thread.
    faults: faults of notifications that a test injects.
    added_services: the services of other packages, by name.
    """

    settings: BrokerSettings
    bind_host: str
    transport: Transport
    memory_directory: str
    deployed_name: str = ""
    runtime_directory: str = ""
    in_one_process: bool = False
    tls: TlsSource = TlsSource()
    trusted_addresses: str = ""
    takes_over_name: bool = False
    access_key: str = ""
    register: str = ""
    replica_id: int = 0
    names_own_node: bool = False
    faults: NotificationFaults = NotificationFaults()
    added_services: dict[str, ServiceRow] = {}

    @property
    def name(self) -> str:
        """What the deployment calls this broker; replicas share a `brokerName`."""
        return self.deployed_name or self.settings.broker.broker_name

    @property
    def address(self) -> str:
        """What clients get, `host:port`."""
        return self.settings.broker.broker_addr

    @property
    def store_directory(self) -> str:
        """Root of the broker's store."""
        return self.settings.store.store_path_root

    @property
    def watermarks_path(self) -> Path:
        """The path of the shared watermarks."""
        return Path(self.runtime_directory, "watermarks")

    @property
    def has_notifications(self) -> bool:
        """Whether progress travels by shared watermarks and notifications."""
        return self.transport is Transport.NOTIFICATIONS and not self.in_one_process

    def socket_path(self, service: str) -> Path:
        """Return the path of a service's notification socket."""
        return Path(self.runtime_directory, f"{service}.socket")

    def to_builtins(self) -> dict[str, Any]:
        """Return what an actor's constructor takes."""
        return dict(msgspec.to_builtins(self))


def read_plan(plan: dict[str, Any]) -> ServicePlan:
    """Return the plan that an actor was constructed with."""
    return convert(plan, ServicePlan)


def at_address(plan: ServicePlan, host: str) -> ServicePlan:
    """Return the plan of a broker that clients and members reach at a host."""
    replace = msgspec.structs.replace
    broker = replace(plan.settings.broker, broker_ip1=host, broker_ip2=host)
    return replace(plan, settings=replace(plan.settings, broker=broker))


def memory_directory() -> str:
    """Return a directory in memory: /dev/shm where there is one, else the temporary directory."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
