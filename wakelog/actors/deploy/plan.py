"""Plan: everything a deployment needs to know, settled before anything is started.

`planning.make_plan` works it out from `UpOptions`, which is what the command line said; a
deployment reads it and asks nobody else. Values only: whether the ports are free and the store is
ours is for `cli/preflight.py`.

Invariants:
    - there is at least one broker, and no two users of one port.
    - every path is absolute, every host an address.
"""

from __future__ import annotations

import msgspec

from wakelog.actors.transport.service_plan import Transport
from wakelog.broker.config import PORTS_ABOVE, PORTS_BELOW
from wakelog.broker.config_file import BrokerSettings
from wakelog.nameserver.config import NameServerConfig
from wakelog.telemetry.logs import LogFormat, LogLevel


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line said; None where it said nothing."""

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
    """A name server of ours; `address` is what clients are told."""

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
        """The port that clients are told."""
        return self.settings.broker.listen_port

    @property
    def address(self) -> str:
        """What clients are told, `host:port`."""
        return self.settings.broker.broker_addr

    @property
    def store_directory(self) -> str:
        """Root of the broker's store."""
        return self.settings.store.store_path_root


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment that fits together.

    store_root: what --store named; the brokers' stores are in it when there are several.
    metrics_port: where the deployment serves /metrics on `bind_host`, 0 for nowhere. If nobody
        asked for it, a taken one is no reason not to start.
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
        """A name server for clients to ask: ours, or the first of those that were named."""
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
