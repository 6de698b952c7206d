"""The options that every client has.

Source: org.apache.rocketmq.client.ClientConfig, org.apache.rocketmq.common.protocol.NamespaceUtil
(4.9.3).
"""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, NamedTuple, Protocol, TypeAlias, TypedDict

from wakelog.client.errors import InvalidArgument
from wakelog.client.plain import (
    check_flags,
    check_kind,
    not_accepted,
    plain_path,
    plain_secret,
    plain_text,
    plain_texts,
    positive_milliseconds,
    unknown_names,
    whole_number,
)
from wakelog.network.client import Dial
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls
from wakelog.protocol.addresses import read_name_servers
from wakelog.protocol.names import (
    DLQ_PREFIX,
    GROUP_LENGTH_MAX,
    RETRY_PREFIX,
    has_legal_characters,
    is_legal_group,
)

NAMESPACE_SEPARATOR: Final = "%"

_OWN_ARGUMENTS: Final = (
    "group", "topics", "start", "ordered", "broadcast", "allocation", "max_retries",
    "consume_timeout", "offset_folder", "instance_name", "trace", "start_timeout", "check",
    "batching", "messages_max", "bytes_max",
)  # fmt: skip
"""What a producer or a consumer takes beside the settings; a test compares the signatures."""


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


def check_setting_names(given: Iterable[str]) -> None:
    """Check that each is a setting of every client. Raises: InvalidArgument."""
    settings = Settings.__optional_keys__
    if unknown := set(given) - settings:
        known = sorted({*settings, *_OWN_ARGUMENTS})
        raise unknown_names("settings", unknown, sorted(settings), near=known)


def make_options(
    target: Target, group: str, settings: Settings, *, retries_max: int = 3
) -> ClientOptions:
    """Return checked options. Raises: InvalidArgument."""
    addresses = _name_servers(target)
    group = plain_group(group)
    check_setting_names(settings)
    timeout_ms = positive_milliseconds("timeout", settings.get("timeout", timedelta(seconds=3)))
    retries_max = whole_number("retries_max", settings.get("retries_max", retries_max), 0)
    # None: an environment variable that is not set.
    given = {name: settings.get(name) for name in Credentials._fields}
    credentials = Credentials(
        *("" if secret is None else plain_secret(name, secret) for name, secret in given.items())
    )
    if bool(credentials.access_key) != bool(credentials.secret_key):
        raise InvalidArgument("access_key and secret_key belong together", "Give both, or neither")
    if credentials.security_token and not credentials.access_key:
        cause = "security_token is given without access_key"
        raise InvalidArgument(cause, "Give access_key and secret_key, too")
    namespace = plain_text("namespace", settings.get("namespace", ""))
    if namespace and not has_legal_characters(namespace):
        raise not_accepted("namespace", namespace, "letters, digits, %, |, _ and -")
    return ClientOptions(
        addresses,
        with_namespace(namespace, group),
        timeout_ms,
        retries_max,
        credentials=credentials,
        tls=_plain_tls(settings.get("tls", False)),
        namespace=namespace,
        dial=None if isinstance(target, str) else target.dial,
    )


def plain_options(given: ClientOptions) -> ClientOptions:
    """Return options that a user made without `make_options`. Raises: InvalidArgument."""
    check_kind("credentials", given.credentials, Credentials)
    secrets = (plain_secret(name, getattr(given.credentials, name)) for name in Credentials._fields)
    if given.dial is not None and not callable(given.dial):
        raise not_accepted("dial", given.dial, "what connects, or None")
    return ClientOptions(
        tuple(plain_texts("name_servers", given.name_servers, "HOST:PORT of each, as a tuple")),
        plain_text("group", given.group),
        whole_number("timeout_ms", given.timeout_ms, 1),
        whole_number("retries_max", given.retries_max, 0),
        whole_number("pause_ms", given.pause_ms, 0),
        Credentials(*secrets),
        _plain_tls(given.tls),
        plain_text("namespace", given.namespace),
        given.dial,
    )


def plain_group(given: object) -> str:
    """Return the name of a group as a plain text. Raises: InvalidArgument."""
    group = plain_text("group", given, "the name of a group")
    if not is_legal_group(group):
        remedy = f"Use printable ASCII without blanks, / and @, at most {GROUP_LENGTH_MAX}"
        raise InvalidArgument(f"group={group!r} is no name of a group", remedy)
    return group


def _plain_tls(given: object) -> Tls | None:
    """Return the settings of TLS, None without it. Raises: InvalidArgument."""
    if isinstance(given, bool) or given is None:
        return Tls() if given else None
    if not isinstance(given, Tls):
        raise not_accepted("tls", given, "True, False or Tls(...)")
    check_flags(checks_server=given.checks_server, checks_host=given.checks_host)
    trust_path, cert_path, key_path = (
        str(plain_path(name, path)) if (path := getattr(given, name)) else ""
        for name in ("trust_path", "cert_path", "key_path")
    )
    if key_path and not cert_path:
        raise InvalidArgument("key_path is given without cert_path", "Give both in tls=Tls(...)")
    password = plain_secret("key_password", given.key_password)
    return Tls(trust_path, cert_path, key_path, password, given.checks_server, given.checks_host)


def _name_servers(target: Target) -> tuple[str, ...]:
    if not isinstance(target, str):
        if not hasattr(target, "dial"):
            raise not_accepted(
                "name_servers", target, "HOST:PORT, or what wakelog.attach() returns"
            )
        return target.name_servers
    text = plain_text("name_servers", target)
    try:
        addresses = read_name_servers(text)
    except ValueError as error:
        raise InvalidArgument(f"name_servers={text!r} is no address", f"Give {error}") from None
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
