"""The plan of a deployment: everything that it needs to know, settled before anything is started.

`planning.make_plan` makes it from `UpOptions`, the values of the command line. These are values
only: `cli/preflight.py` checks whether ports are free and the store belongs to the broker. With a
directory for each broker (`Plan.in_directory`) it is what the Supervisor is constructed with.

Invariants:
    - there is at least one broker or a name server, and no two users of one port.
    - every path is absolute, every host an address.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from wakelog.actors.ray.options import ANYWHERE, Placement
from wakelog.actors.transport.service_plan import (
    LogSettings,
    NameServerPlan,
    ServicePlan,
    Transport,
)
from wakelog.broker.config import PORTS_ABOVE, PORTS_BELOW
from wakelog.network.tls_properties import TlsSource
from wakelog.protocol.addresses import read_name_servers
from wakelog.telemetry.metrics import NATIVE


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the command line; None where it has none."""

    store: str | None = None
    name_server_port: int | None = None
    broker_port: int | None = None
    bind: str = "127.0.0.1"
    open: bool = False
    advertise: str | None = None
    broker_count: int = 1
    replica_count: int = 1
    config_path: str | None = None
    settings: tuple[str, ...] = ()
    transport: Transport = Transport.NOTIFICATIONS
    is_local: bool = False
    plain_ray: bool = False
    metrics_port: int | None = None
    drain_seconds: int = 0
    console_port: int | None = None
    console_account: str | None = None

    @property
    def store_count(self) -> int:
        """How many brokers run: replicas are brokers, too."""
        return self.broker_count * self.replica_count


class NameServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of a name server alone; None where it has none."""

    store: str | None = None
    port: int | None = None
    bind: str = "127.0.0.1"
    advertise: str | None = None
    config_path: str | None = None
    settings: tuple[str, ...] = ()
    metrics_port: int | None = None


class ConsolePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The console beside a deployment: where its pages are, and who it is at the brokers.

    port: 0 if none of those tried is free. port_is_default: no option asked for it.
    account_path: a file with the keys of an account; "" without access control.
    why_not: why it is not started, "" if it is.
    """

    port: int
    port_is_default: bool
    account_path: str = ""
    why_not: str = ""


CONSOLE_HOST: Final = "127.0.0.1"
"""Where the console of a deployment listens: who reaches it may change everything."""


class PortUse(msgspec.Struct, frozen=True):
    """A port that has to be free, what for, and the flag that moves it.

    host: where, "" for the address of the deployment.
    """

    port: int
    user: str
    flag: str
    host: str = ""


class Plan(LogSettings, frozen=True, kw_only=True):
    """A deployment that fits together.

    store_root: what --store named; the brokers' stores are in it when there are several.
    metrics_port: where the deployment serves /metrics on `bind_host`, 0 for nowhere. If no option
        asked for it, a taken one does not prevent the start.
    metrics_names: the sets of names that it serves there.
    drain_seconds: for how long a stop waits for clients to move to other brokers.
    tls: where the TLS settings of all ports are; they hold for the brokers' calls, too.
    console: None for none.
    tls_text: what is said of TLS at the start; "" if nobody has asked for it.
    placements: where brokers have to live, by name.
    """

    bind_host: str
    advertised_host: str
    checks_advertised: bool
    name_server: NameServerPlan | None
    brokers: tuple[ServicePlan, ...]
    store_root: str
    is_local: bool
    plain_ray: bool
    metrics_port: int
    metrics_port_is_default: bool
    metrics_names: tuple[str, ...]
    warnings: tuple[str, ...]
    drain_seconds: int = 0
    tls: TlsSource = TlsSource()
    tls_text: str = ""
    console: ConsolePlan | None = None
    placements: dict[str, Placement] = msgspec.field(default_factory=dict)

    @property
    def name_server_address(self) -> str:
        """A name server for clients: of this deployment, or the first of the others."""
        if self.name_server is not None:
            return f"{self.advertised_host}:{self.name_server.settings.config.listen_port}"
        return read_name_servers(self.brokers[0].settings.broker.namesrv_addr)[0]

    @property
    def has_other_names(self) -> bool:
        """Whether `/metrics` serves names of elsewhere, which need more of a broker."""
        return any(name != NATIVE for name in self.metrics_names)

    def in_directory(self, shared_directory: Path, **changes: Any) -> "Plan":
        """Return this plan with a new directory of each broker for its sockets and shared pages.

        changes: of every broker's ServicePlan.
        """
        brokers = []
        for broker in self.brokers:
            directory = shared_directory / broker.name
            directory.mkdir(mode=0o700, exist_ok=True)
            own = {"runtime_directory": str(directory), **changes}
            brokers.append(msgspec.structs.replace(broker, **own))
        return msgspec.structs.replace(self, brokers=tuple(brokers))

    def placement_of(self, broker: ServicePlan) -> Placement:
        """Return where a broker has to live."""
        return self.placements.get(broker.name, ANYWHERE)

    @property
    def own_placement(self) -> Placement:
        """Where the Supervisor and the name server have to live.

        That is beside the first broker, but anywhere if its node may be given up.
        """
        first = self.placement_of(self.brokers[0])
        return ANYWHERE if first.moves else first

    @property
    def ports(self) -> tuple[PortUse, ...]:
        """Every port of the deployment that does not move by itself."""
        found = []
        if self.name_server is not None:
            port = self.name_server.settings.config.listen_port
            flag = "--namesrv-port" if self.brokers else "--port"
            found.append(PortUse(port, "the name server", flag))
        for broker in self.brokers:
            for offset, suffix in (
                (0, ""),
                (-PORTS_BELOW, f"'s VIP channel, its port - {PORTS_BELOW},"),
                (PORTS_ABOVE, f"'s replication, its port + {PORTS_ABOVE},"),
            ):
                port = broker.settings.broker.listen_port + offset
                found.append(PortUse(port, broker.name + suffix, "--broker-port"))
        if self.metrics_port:
            found.append(PortUse(self.metrics_port, "the metrics", "--metrics-port"))
        console = self.console
        if console is not None and not console.port_is_default and not console.why_not:
            use = PortUse(console.port, "the console", "--console-port", CONSOLE_HOST)
            found.append(use)
        return tuple(found)
