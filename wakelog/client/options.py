"""The options that every client has.

Source: org.apache.rocketmq.client.ClientConfig, org.apache.rocketmq.common.protocol.NamespaceUtil
(4.9.3).
"""

import asyncio
import re
from datetime import timedelta
from typing import Final, NamedTuple, Protocol, TypeAlias, TypedDict

from wakelog.client.errors import InvalidArgument
from wakelog.network.client import Dial
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls
from wakelog.protocol.names import DLQ_PREFIX, GROUP_LENGTH_MAX, RETRY_PREFIX, is_legal_group

NAMESPACE_SEPARATOR: Final = "%"
MILLISECOND: Final = timedelta(milliseconds=1)

_ADDRESS: Final = re.compile(r"[^\s,]+:(\d{1,5})", re.ASCII)
_PORT_MAX: Final = 65_535


def read_name_servers(text: str) -> tuple[str, ...]:
    """Read namesrvAddr: `HOST:PORT`, or several with semicolons between. Raises: ValueError."""
    found = tuple(filter(None, map(str.strip, text.split(";"))))
    for address in found:
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match[1]) <= _PORT_MAX:
            raise ValueError("HOST:PORT, several with semicolons between them")
    return found


class Dialed(Protocol):
    """A cluster that is reached by calls of its actors (`wakelog.attach`)."""

    @property
    def name_servers(self) -> tuple[str, ...]:
        """What `dial` takes as the address of each name server."""
        ...

    async def dial(self, address: str, protocol: asyncio.Protocol) -> None:
        """Connect a protocol to a name server or broker. Raises: OSError."""
        ...


Target: TypeAlias = str | Dialed
"""The cluster of a client: `HOST:PORT` of name servers with semicolons between, or its actors."""


def milliseconds(name: str, given: timedelta) -> int:
    """Return the milliseconds of a time, up to the next whole one.

    Raises: InvalidArgument for what is no timedelta, such as a number of seconds.
    """
    if not isinstance(given, timedelta):
        cause = f"{name} is {given!r}, which is no timedelta"
        raise InvalidArgument(cause, f"Give {name}=timedelta(seconds=...)")
    return -(-given // MILLISECOND)


def seconds(given: float | timedelta) -> float:
    """Return the seconds of a time that may be given in either form."""
    return given.total_seconds() if isinstance(given, timedelta) else given


class ClientOptions(NamedTuple):
    """How to reach a cluster.

    name_servers: `HOST:PORT` of each; the one that answered last is asked first.
    retries_max: further attempts after the first one failed.
    pause_ms: the pause before a read is tried again; a producer has its own pauses.
    credentials: for brokers with access control. tls: None for connections without TLS.
    namespace: before the names of topics and groups; "" for none.
    dial: how to connect; None for TCP.
    """

    name_servers: tuple[str, ...] = ()
    group: str = "wakelog"
    timeout_ms: int = 3000
    retries_max: int = 3
    pause_ms: int = 10
    credentials: Credentials = Credentials()
    tls: Tls | None = None
    namespace: str = ""
    dial: Dial | None = None


class Settings(TypedDict, total=False):
    """What producers and consumers take by keyword.

    timeout: of one attempt, 3 s by default.
    retries_max: further attempts, 2 by default of a producer and 3 of a consumer.
    access_key, secret_key, security_token: of an account, for brokers with access control.
    tls: True to trust the system's certificates, or `Tls` with paths of others.
    namespace: before the names of topics and groups.
    """

    timeout: timedelta
    retries_max: int
    access_key: str
    secret_key: str
    security_token: str
    tls: Tls | bool
    namespace: str


def make_options(
    target: Target, group: str, settings: Settings, *, retries_max: int = 3
) -> ClientOptions:
    """Return checked options. Raises: InvalidArgument, TlsRefused."""
    addresses = _name_servers(target)
    if not is_legal_group(group):
        remedy = f"Use printable ASCII without blanks, / and @, at most {GROUP_LENGTH_MAX}"
        raise InvalidArgument(f"{group!r} is no name of a group", remedy)
    unknown = settings.keys() - Settings.__optional_keys__
    if unknown:
        known = ", ".join(sorted(Settings.__optional_keys__))
        raise InvalidArgument(f"unknown settings {', '.join(sorted(unknown))}", f"Known: {known}")
    timeout_ms = milliseconds("timeout", settings.get("timeout", timedelta(seconds=3)))
    retries_max = settings.get("retries_max", retries_max)
    if timeout_ms <= 0 or retries_max < 0:
        remedy = "Give a timeout above 0, and no retries below 0"
        raise InvalidArgument(f"timeout {timeout_ms} ms, retries_max {retries_max}", remedy)
    keys = (settings.get(name, "") for name in ("access_key", "secret_key", "security_token"))
    credentials = Credentials(*map(str, keys))
    if bool(credentials.access_key) != bool(credentials.secret_key):
        raise InvalidArgument("access_key and secret_key belong together", "Give both, or neither")
    tls = settings.get("tls", False)
    namespace = settings.get("namespace", "")
    return ClientOptions(
        addresses,
        with_namespace(namespace, group),
        timeout_ms,
        retries_max,
        credentials=credentials,
        tls=(Tls() if tls else None) if isinstance(tls, bool) else tls,
        namespace=namespace,
        dial=None if isinstance(target, str) else target.dial,
    )


def _name_servers(target: Target) -> tuple[str, ...]:
    if not isinstance(target, str):
        if not hasattr(target, "dial"):
            remedy = "Give HOST:PORT, or what wakelog.attach() returns"
            raise InvalidArgument(f"{target!r} is no address", remedy)
        return target.name_servers
    try:
        addresses = read_name_servers(target)
    except ValueError as error:
        raise InvalidArgument(f"{target!r} is no address", f"Give {error}") from None
    if not addresses:
        raise InvalidArgument("no name server is given", "Give HOST:PORT")
    return addresses


def with_namespace(namespace: str, name: str) -> str:
    """Return the name of a topic or group in a namespace, behind the prefix of a retry topic."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix + with_namespace(namespace, name.removeprefix(prefix))
    begin = f"{namespace}{NAMESPACE_SEPARATOR}"
    return name if not namespace or name.startswith(begin) else begin + name


def without_namespace(namespace: str, name: str) -> str:
    """Return the name that users give."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix + without_namespace(namespace, name.removeprefix(prefix))
    return name.removeprefix(f"{namespace}{NAMESPACE_SEPARATOR}") if namespace else name
