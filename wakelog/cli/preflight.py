"""Checks before anything is started: stores, ports, and the advertised address.

    Ray         is installed, unless the plan needs none
    tls         certificates and keys can be read, and belong together
    stores      see `store_check`; first, because the process that runs the store has its ports too
    ports       each can be bound, or the message names the process that has it
    address     the advertised address leads to the ports that are bound here
    names       no name server has a broker's name from another broker, which still runs

They write nothing. If an advertised address leads through address translation, one port is listened
on for the moment of the check. No other port is: a client must not find a broker before it is in
the route.
"""

import asyncio
import contextlib
import errno
import secrets
import socket
import time
from collections.abc import Collection
from importlib.util import find_spec

import msgspec

from wakelog.actors.deploy.host_addresses import (
    HostAddresses,
    family_of,
    is_wildcard,
    reachable_from_here,
)
from wakelog.actors.deploy.kept_changes import with_kept_changes
from wakelog.actors.deploy.plan import CONSOLE_HOST, Plan, PortUse
from wakelog.actors.deploy.planning import PORTS_BETWEEN_BROKERS
from wakelog.actors.errors import PreflightRefused
from wakelog.broker.config import PORTS_ABOVE, PORTS_BELOW
from wakelog.cli.port_holder import find_port_holder
from wakelog.cli.store_check import check_stores, copies_left_aside, forgotten_topics
from wakelog.network.tls import ServerContext, make_context
from wakelog.network.tls_properties import read_tls
from wakelog.protocol.addresses import read_name_servers
from wakelog.protocol.bodies import BrokerData
from wakelog.storage.file_system import FileSystem

PORTS_TRIED_MAX = 20
"""So that several deployments on one machine each find a port for metrics and console."""

PORT_MAX = 65_535
BROKER_PORTS_TRIED_MAX = 50
"""How many free ports are tried until one has free ports beside it."""

ADVERTISE_SECONDS_MAX = 3.0
"""How long a connection to the advertised address may take; clients of 4.9.3 wait 3 s as well."""

NAME_SERVER_MS_MAX = 1_000
"""How long a name server, and a broker that it names, may take to answer."""

PRODUCER_BACK_MS = 60_000
"""How long a producer of Java may be unknown to a broker: it asks for routes every 30 s, and sends
heartbeats every 30 s. A check that nobody can answer counts."""

_NONCE_BYTES = 16


def preflight(plan: Plan, fs: FileSystem, addresses: HostAddresses | None = None) -> Plan:
    """Check a plan against this machine and return it.

    The plan returned has the changes that requests made while it ran before. Without an option for
    the port of the metrics or the console, it has a free one.

    Raises: NotPossible, PreflightRefused, ModuleNotFoundError, TlsRefused, StoreError.
    """
    if not plan.is_local and find_spec("ray") is None:
        raise ModuleNotFoundError("Ray is not installed", name="ray")
    check_stores(plan, fs)
    changed = with_kept_changes(plan, fs)
    if changed.brokers != plan.brokers:
        check_stores(changed, fs)
    plan = changed
    _check_tls(plan)
    warnings = (*plan.warnings, *copies_left_aside(plan, fs), *forgotten_topics(plan, fs))
    plan = msgspec.structs.replace(plan, warnings=(*warnings, *_impatient_checks(plan)))
    plan = _move_console(_move_metrics(plan))
    for use in plan.ports:
        _check_port(use.host or plan.bind_host, use)
    if plan.checks_advertised:
        _check_advertised(plan, addresses or HostAddresses())
    _check_names(plan)
    return plan


def _impatient_checks(plan: Plan) -> list[str]:
    """Return a warning if half messages are given up before a producer can have come back."""
    if not plan.brokers:
        return []
    config = plan.brokers[0].settings.broker
    interval_ms, count_max = config.transaction_check_interval, config.transaction_check_max
    if interval_ms <= 0 or interval_ms * count_max >= PRODUCER_BACK_MS:
        return []
    return [
        f"open transactions are given up after {interval_ms * count_max / 1000:g} s, and a "
        f"producer may need {PRODUCER_BACK_MS // 1000} s to find a broker that was started again, "
        f"or a new master: give transactionCheckMax {-(-PRODUCER_BACK_MS // interval_ms)} or more"
    ]


def _check_tls(plan: Plan) -> None:
    properties = read_tls(plan.tls)
    ServerContext(properties.server)
    if any(broker.settings.broker.use_tls for broker in plan.brokers):
        make_context(properties.client)


def _move_metrics(plan: Plan) -> Plan:
    if not plan.metrics_port_is_default:
        return plan
    taken = {use.port for use in plan.ports if use.port != plan.metrics_port}
    port = _free_port(plan.bind_host, plan.metrics_port, taken)
    if port == plan.metrics_port:
        return plan
    words = f"on port {port}" if port else "off"
    warning = f"port {plan.metrics_port} is taken, so the metrics are {words}"
    warnings = (*plan.warnings, warning)
    return msgspec.structs.replace(plan, metrics_port=port, warnings=warnings)


def _move_console(plan: Plan) -> Plan:
    console = plan.console
    if console is None or console.why_not or not console.port_is_default:
        return plan
    port = _free_port(CONSOLE_HOST, console.port, {use.port for use in plan.ports})
    why_not = "" if port else f"off: port {console.port} and those after it are taken"
    console = msgspec.structs.replace(console, port=port, why_not=why_not)
    return msgspec.structs.replace(plan, console=console)


def _free_port(host: str, first: int, taken: Collection[int]) -> int:
    """Return the first port that is free, 0 if none of those tried is."""
    for port in range(first, first + PORTS_TRIED_MAX):
        if port not in taken and _bind_error(host, port) is None:
            return port
    return 0


def free_broker_port(host: str, broker_count: int) -> int:
    """Return a port for the first broker whose other ports, and those of all brokers, are free.

    Raises: PreflightRefused.
    """
    for _ in range(BROKER_PORTS_TRIED_MAX):
        with contextlib.closing(_bound(host, 0)) as listener:
            port: int = listener.getsockname()[1]
        firsts = range(port, port + broker_count * PORTS_BETWEEN_BROKERS, PORTS_BETWEEN_BROKERS)
        needed = [x + offset for x in firsts for offset in (-PORTS_BELOW, 0, PORTS_ABOVE)]
        if max(needed) <= PORT_MAX and not any(_bind_error(host, each) for each in needed):
            return port
    raise PreflightRefused("no free ports were found", "Give --broker-port another number than 0.")


def _check_port(host: str, use: PortUse) -> None:
    error = _bind_error(host, use.port)
    if error is None:
        return
    if error.errno == errno.EADDRINUSE:
        holder = find_port_holder(use.port)
        remedy = f"{holder.how_to_stop if holder else 'Stop it'}, or choose another port with "
        remedy += use.flag
        if use.flag == "--namesrv-port":
            there = f"{reachable_from_here(host)}:{use.port}"
            remedy += f"; to register with the one there: {use.flag} 0 --set namesrvAddr={there}"
        raise PreflightRefused(
            f"port {use.port}, for {use.user}, is taken by {holder or 'another process'}",
            f"{remedy}.",
        )
    if error.errno == errno.EADDRNOTAVAIL:
        raise PreflightRefused(
            f"this host has no address {host}",
            "Give --bind one that `ip addr` shows, 127.0.0.1 for this host only, or 0.0.0.0.",
        )
    if error.errno == errno.EACCES:
        raise PreflightRefused(
            f"this user may not listen on port {use.port}, for {use.user}",
            f"Choose one above 1023 with {use.flag}.",
        )
    raise PreflightRefused(
        f"cannot listen on {host}:{use.port}, for {use.user}: {error.strerror}",
        "Choose another --bind.",
    )


def _bind_error(host: str, port: int) -> OSError | None:
    try:
        _bound(host, port).close()
    except OSError as error:
        return error
    return None


def _bound(host: str, port: int) -> socket.socket:
    """Bind as the server does. Raises: OSError."""
    listener = socket.socket(family_of(host), socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def _check_advertised(plan: Plan, addresses: HostAddresses) -> None:
    bound, advertised = plan.bind_host, plan.advertised_host
    if advertised == bound:
        return
    is_own = addresses.is_own(advertised)
    if is_own and is_wildcard(bound) and family_of(bound) == family_of(advertised):
        return
    port = plan.brokers[0].settings.broker.listen_port
    if is_own:
        everywhere = "::" if ":" in advertised else "0.0.0.0"
        fitting = addresses.outward(bound) if is_wildcard(bound) else bound
        raise PreflightRefused(
            f"clients would get {advertised}:{port}, where nothing listens: the ports are bound to "
            f"{bound}",
            f"Give --bind {advertised}, --bind {everywhere}, or --advertise {fitting}.",
        )
    reason = _why_unreachable(bound, advertised, port)
    if reason is not None:
        raise PreflightRefused(
            f"clients would get {advertised}:{port}, and that does not lead here: {reason}",
            "Give --advertise an address by which this host is reached; if that works only from "
            "elsewhere, add --set wakelog.checkAdvertise=false.",
        )


def _why_unreachable(bound: str, advertised: str, port: int) -> str | None:
    """Return why a connection to `advertised` does not arrive at `bound`, None if it does."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    end_seconds = time.monotonic() + ADVERTISE_SECONDS_MAX
    with contextlib.closing(_bound(bound, port)) as listener:
        listener.listen()
        try:
            client = socket.create_connection((advertised, port), ADVERTISE_SECONDS_MAX)
        except TimeoutError:
            return f"no answer within {ADVERTISE_SECONDS_MAX:.0f} s"
        except OSError as error:
            return error.strerror or str(error)
        with client:
            try:
                client.sendall(nonce)
                while _receive_first(listener, end_seconds) != nonce:
                    pass  # from a client of a broker that ran here before
            except OSError:
                return "another host answers there"
    return None


def _receive_first(listener: socket.socket, end_seconds: float) -> bytes:
    """Accept one connection and return how it begins. Raises: OSError, in time."""
    listener.settimeout(max(0.01, end_seconds - time.monotonic()))
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(max(0.01, end_seconds - time.monotonic()))
        return connection.recv(_NONCE_BYTES, socket.MSG_WAITALL)


def _check_names(plan: Plan) -> None:
    """Refuse a name that another broker has: clients would see now the one, now the other.

    Replicas with a register share theirs, and the register says who is master. A broker that takes
    a name over is told to share it.
    """
    if not plan.brokers:
        return
    listed = read_name_servers(plan.brokers[0].settings.broker.namesrv_addr)
    own = plan.name_server_address if plan.name_server is not None else ""
    for name_server in (address for address in listed if address != own):
        known = asyncio.run(_registered(name_server))
        for one in plan.brokers:
            if one.register or one.takes_over_name:
                continue
            broker = one.settings.broker
            data = known.get(broker.broker_name, BrokerData())
            other = data.broker_addrs.get(broker.broker_id, broker.broker_addr)
            if other != broker.broker_addr and _accepts(other):
                raise PreflightRefused(
                    f"the name server {name_server} has {broker.broker_name} already, at {other}",
                    "Stop that broker, or give this one a name with --set brokerName=NAME; or take "
                    "its place with --set wakelog.takeOverName=true.",
                )


async def _registered(name_server: str) -> dict[str, BrokerData]:
    """Return the brokers of a name server by name; none of one that does not answer in time."""
    # Imported here: most starts have a name server of their own, and ask no other.
    from wakelog.client.admin import open_admin
    from wakelog.client.errors import ClientError
    from wakelog.client.options import ClientOptions

    options = ClientOptions((name_server,), timeout_ms=NAME_SERVER_MS_MAX)
    async with open_admin(options) as admin:
        try:
            return (await admin.cluster()).broker_addr_table
        except ClientError:
            return {}


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), NAME_SERVER_MS_MAX / 1000).close()
    except (OSError, ValueError):
        return False
    return True
