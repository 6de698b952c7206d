"""The plan of a deployment: everything that it needs to know, settled before anything is started.

`planning.make_plan` makes it from `UpOptions`, the values of the command line. These are values
only: `cli/preflight.py` checks whether ports are free and the store belongs to the broker.

Invariants:
    - there is at least one broker, and no two users of one port.
    - every path is absolute, every host an address.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from wakelog.actors.transport.notifications import NO_FAULTS, NotificationFaults
from wakelog.actors.transport.service_plan import (
    ServicePlan,
    ServiceRow,
    Transport,
    memory_directory,
)
from wakelog.broker.config import PORTS_ABOVE, PORTS_BELOW
from wakelog.broker.config_file import BrokerSettings
from wakelog.nameserver.config import NameServerConfig
from wakelog.telemetry.logs import LogFormat, LogLevel


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the command line; None where it has none."""

    store: str | None = None
    name_server_port: int | None = None
    broker_port: int | None = None
    bind: str = "127.0.0.1"
    advertise: str | None = None
    broker_count: int = 1
    config_path: str | None = None
    settings: tuple[str, ...] = ()
    transport: Transport = Transport.NOTIFICATIONS
    is_local: bool = False
    plain_ray: bool = False
    metrics_port: int | None = None


class PortUse(msgspec.Struct, frozen=True):
    """A port that has to be free, what for, and the flag that moves it."""

    port: int
    user: str
    flag: str


class NameServerPlan(msgspec.Struct, frozen=True):
    """A name server of this deployment; clients get `address`."""

    port: int
    address: str
    kv_config_path: str

    @property
    def config(self) -> NameServerConfig:
        """What it is started with."""
        return NameServerConfig(listen_port=self.port, kv_config_path=self.kv_config_path)


class BrokerPlan(msgspec.Struct, frozen=True):
    """One broker: its settings, and where its part of the logs goes."""

    settings: BrokerSettings
    log_directory: str

    @property
    def name(self) -> str:
        """The broker's name."""
        return self.settings.broker.broker_name

    @property
    def listen_port(self) -> int:
        """The port that clients get."""
        return self.settings.broker.listen_port

    @property
    def address(self) -> str:
        """What clients get, `host:port`."""
        return self.settings.broker.broker_addr

    @property
    def store_directory(self) -> str:
        """Root of the broker's store."""
        return self.settings.store.store_path_root


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment that fits together.

    store_root: what --store named; the brokers' stores are in it when there are several.
    metrics_port: where the deployment serves /metrics on `bind_host`, 0 for nowhere. If no option
        asked for it, a taken one does not prevent the start.
    """

    bind_host: str
    advertised_host: str
    checks_advertised: bool
    name_server: NameServerPlan | None
    brokers: tuple[BrokerPlan, ...]
    store_root: str
    log_directory: str
    log_level: LogLevel
    log_format: LogFormat
    transport: Transport
    is_local: bool
    plain_ray: bool
    metrics_port: int
    metrics_port_is_default: bool
    warnings: tuple[str, ...]

    @property
    def name_server_address(self) -> str:
        """A name server for clients: of this deployment, or the first of the others."""
        if self.name_server is not None:
            return self.name_server.address
        return self.brokers[0].settings.broker.namesrv_addr.split(";")[0]

    @property
    def ports(self) -> tuple[PortUse, ...]:
        """Every port of the deployment."""
        found = []
        if self.name_server is not None:
            found.append(PortUse(self.name_server.port, "the name server", "--namesrv-port"))
        for broker in self.brokers:
            for offset, suffix in (
                (0, ""),
                (-PORTS_BELOW, f"'s VIP channel, its port - {PORTS_BELOW},"),
                (PORTS_ABOVE, f"'s replication, its port + {PORTS_ABOVE},"),
            ):
                port = broker.listen_port + offset
                found.append(PortUse(port, broker.name + suffix, "--broker-port"))
        if self.metrics_port:
            found.append(PortUse(self.metrics_port, "the metrics", "--metrics-port"))
        return tuple(found)


def service_plan(
    plan: Plan,
    broker: BrokerPlan,
    shared_directory: Path,
    *,
    in_one_process: bool = False,
    faults: NotificationFaults = NO_FAULTS,
    added_services: Mapping[str, ServiceRow] | None = None,
) -> ServicePlan:
    """Return what the services of a broker are started with; make their directory.

    shared_directory: for sockets and shared pages, with a directory for each broker.
    """
    directory = shared_directory / broker.name
    directory.mkdir(mode=0o700, exist_ok=True)
    return ServicePlan(
        settings=broker.settings,
        bind_host=plan.bind_host,
        transport=plan.transport,
        runtime_directory=str(directory),
        log_directory=broker.log_directory,
        memory_directory=memory_directory(),
        log_level=plan.log_level,
        log_format=plan.log_format,
        in_one_process=in_one_process,
        faults=faults,
        added_services=dict(added_services or {}),
    )
