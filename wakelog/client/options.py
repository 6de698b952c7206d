"""The options that every client has.

Source: org.apache.rocketmq.client.ClientConfig, org.apache.rocketmq.common.protocol.NamespaceUtil
(4.9.3).
"""

import asyncio
from datetime import datetime, timedelta
from operator import index
from typing import Final, NamedTuple, Protocol, TypeAlias, TypedDict

from wakelog.client.errors import InvalidArgument
from wakelog.network.client import Dial
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls
from wakelog.protocol.addresses import read_name_servers
from wakelog.protocol.java import LONG_MAX
from wakelog.protocol.names import DLQ_PREFIX, GROUP_LENGTH_MAX, RETRY_PREFIX, is_legal_group

NAMESPACE_SEPARATOR: Final = "%"
MILLISECOND: Final = timedelta(milliseconds=1)


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


def not_accepted(name: str, given: object, accepted: str) -> InvalidArgument:
    """Return the error for an option that cannot be what was given."""
    return InvalidArgument(f"{name} is {given!r}, which is not accepted", f"Give {accepted}")


def whole_number(name: str, given: object, least: int) -> int:
    """Return a number from `least` to Java's largest long. Raises: InvalidArgument."""
    try:
        number = index(given)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(given, bool) or number < least:
        raise not_accepted(name, given, f"a whole number of {least} or more")
    if number > LONG_MAX:
        raise not_accepted(name, given, f"a whole number up to {LONG_MAX}")
    return number


def positive_milliseconds(name: str, given: timedelta) -> int:
    """Return the milliseconds of a time above 0. Raises: InvalidArgument."""
    if (found := milliseconds(name, given)) <= 0:
        raise not_accepted(name, given, "a time above 0")
    return found


def delay_milliseconds(given: timedelta) -> int:
    """Return the milliseconds of a delay. Raises: InvalidArgument, also for one below 0."""
    found = milliseconds("delay", given)
    if given < timedelta():
        raise not_accepted("delay", given, "a time of 0 or more")
    return found


def milliseconds(name: str, given: timedelta) -> int:
    """Return the milliseconds of a time, up to the next whole one.

    Raises: InvalidArgument for what is no timedelta, such as a number of seconds.
    """
    if not isinstance(given, timedelta):
        cause = f"{name} is {given!r}, which is no timedelta"
        raise InvalidArgument(cause, f"Give {name}=timedelta(seconds=...)")
    return given // MILLISECOND + bool(given % MILLISECOND)


def moment_milliseconds(name: str, given: datetime) -> int:
    """Return milliseconds since 1970 of a time, local without a zone. Raises: InvalidArgument."""
    try:
        return round(given.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise not_accepted(name, given, "a time nearer to now") from None


def seconds(name: str, given: float | timedelta) -> float:
    """Return the seconds of a time that may be given in either form. Raises: InvalidArgument."""
    if isinstance(given, timedelta):
        return given.total_seconds()
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given:
        raise not_accepted(name, given, "seconds, or a timedelta")
    return given


def check_flags(**given: object) -> None:
    """Check options that are True or False: "no" would count as True. Raises: InvalidArgument."""
    for name, flag in given.items():
        if not isinstance(flag, bool):
            raise not_accepted(name, flag, "True or False")


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

    @property
    def waits_ms(self) -> int:
        """How long a call waits until another broker leads (`attempts`)."""
        return self.retries_max * self.timeout_ms


class Settings(TypedDict, total=False):
    """What producers and consumers take by keyword.

    timeout: of one attempt, 3 s by default.
    retries_max: further attempts, 2 by default of a producer and 3 of a consumer. While another
        broker is to lead they go on, until `retries_max` times `timeout` are over.
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
    """Return checked options. Raises: InvalidArgument."""
    addresses = _name_servers(target)
    if not isinstance(group, str) or not is_legal_group(group):
        remedy = f"Use printable ASCII without blanks, / and @, at most {GROUP_LENGTH_MAX}"
        raise InvalidArgument(f"group={group!r} is no name of a group", remedy)
    unknown = settings.keys() - Settings.__optional_keys__
    if unknown:
        known = ", ".join(sorted(Settings.__optional_keys__))
        raise InvalidArgument(f"unknown settings {', '.join(sorted(unknown))}", f"Known: {known}")
    timeout_ms = positive_milliseconds("timeout", settings.get("timeout", timedelta(seconds=3)))
    retries_max = whole_number("retries_max", settings.get("retries_max", retries_max), 0)
    keys = (settings.get(name) or "" for name in ("access_key", "secret_key", "security_token"))
    credentials = Credentials(*map(str, keys))
    if bool(credentials.access_key) != bool(credentials.secret_key):
        raise InvalidArgument("access_key and secret_key belong together", "Give both, or neither")
    tls = settings.get("tls", False)
    if not isinstance(tls, bool | Tls | None):
        raise not_accepted("tls", tls, "True, False or Tls(...)")
    namespace = settings.get("namespace", "")
    if not isinstance(namespace, str):
        raise not_accepted("namespace", namespace, "a text")
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
