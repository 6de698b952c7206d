"""Options: what a URL and `broker_transport_options` say about a connection.

    rocketmq://USER:PASSWORD@HOST:PORT,HOST:PORT/NAMESPACE

Name servers have commas or semicolons between. kombu takes a URL apart at semicolons, and has the
parts as alternates: those without a scheme are name servers of the URL in front of them.

Unknown options are refused: one that is misspelt would else be without effect.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from wakelog.client import InvalidArgument, Tls
from wakelog.client.options import Settings
from wakelog.client.plain import milliseconds, plain_text, seconds_from_now, whole_number
from wakelog.protocol.delay_levels import DEFAULT_DELAY_LEVELS
from wakelog.tasks.due import delays_of
from wakelog.tasks.reader import VISIBILITY_TIMEOUT
from wakelog.tasks.sender import QUEUES

SCHEME: Final = "rocketmq"
DEFAULT_PORT: Final = 9876
PREFIX: Final = "kombu-"

_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{0,40}")
_OF_KOMBU: Final = frozenset({"max_retries", "interval_start", "interval_step", "interval_max"})
"""What kombu itself reads of the options."""
_SSL: Final = {"ca_certs": "trust_path", "certfile": "cert_path", "keyfile": "key_path"}


class Options(NamedTuple):
    """How to use a connection.

    prefix: before the names of topics and groups.
    queues: of a topic that is made here, at each broker: the most workers that can share it.
    visibility_ms: when a task that is not settled is put into its queue again.
    delay_levels: `messageDelayLevel` of the brokers.
    """

    prefix: str = PREFIX
    queues: int = QUEUES
    visibility_ms: int = VISIBILITY_TIMEOUT // timedelta(milliseconds=1)
    delay_levels: str = DEFAULT_DELAY_LEVELS


class Place(NamedTuple):
    """Where to connect: name servers with semicolons between, and the settings of a client."""

    name_servers: str
    settings: Settings


def read_options(given: Mapping[str, Any]) -> tuple[Options, Settings]:
    """Return the transport options, and those that the client takes. Raises: InvalidArgument."""
    known = {*Options._fields, "visibility_timeout", "timeout", "retries_max", "security_token"}
    known -= {"visibility_ms"}
    for name in given:
        if name not in known | _OF_KOMBU:
            near = get_close_matches(str(name), known, 1)
            remedy = f"Did you mean {near[0]}?" if near else f"Give some of {sorted(known)}"
            raise InvalidArgument(f"{name!r} is no transport option of rocketmq", remedy)
    prefix = plain_text("prefix", given.get("prefix", PREFIX))
    if not _PREFIX.fullmatch(prefix):
        cause = f"prefix={prefix!r} cannot begin a topic"
        raise InvalidArgument(cause, "Use at most 40 letters, digits, _ and -")
    levels = given.get("delay_levels", DEFAULT_DELAY_LEVELS)
    delays_of(levels)  # refuses what is none
    visibility = given.get("visibility_timeout", VISIBILITY_TIMEOUT)
    visibility_ms = milliseconds("visibility_timeout", _duration("visibility_timeout", visibility))
    if visibility_ms < 1:
        raise InvalidArgument("visibility_timeout is not over 0", "Give seconds")
    queues = whole_number("queues", given.get("queues", QUEUES), 1)
    settings = Settings()
    if "timeout" in given:
        settings["timeout"] = _duration("timeout", given["timeout"])
    if "retries_max" in given:
        settings["retries_max"] = given["retries_max"]
    if "security_token" in given:
        settings["security_token"] = given["security_token"]
    return Options(prefix, queues, visibility_ms, levels), settings


def _duration(name: str, given: object) -> timedelta:
    """Return a time that is given as seconds or as a timedelta. Raises: InvalidArgument."""
    return timedelta(seconds=seconds_from_now(name, given))


def read_place(
    hostname: str | None,
    alternates: Sequence[str] = (),
    *,
    user: str | None = None,
    password: str | None = None,
    port: int | None = None,
    virtual_host: str | None = None,
    ssl: object = False,
) -> Place:
    """Return where to connect. Raises: InvalidArgument.

    hostname: a URL or an address, as kombu has it. alternates: all parts of the text that the
        user gave, between semicolons.
    """
    url, more = _of_one_cluster(hostname or "localhost", alternates)
    scheme, found, rest = url.rpartition("://")
    if found and scheme != SCHEME:
        raise InvalidArgument(f"the scheme is {scheme}", f"Give {SCHEME}://HOST:PORT")
    if "?" in rest or "#" in rest:
        cause = "the broker's URL has a query"
        raise InvalidArgument(cause, "Give options in broker_transport_options")
    rest, _, path = rest.partition("/")
    account, _, hosts = rest.rpartition("@")
    if account:
        user, _, password = account.partition(":")
        user, password = unquote(user), unquote(password)
    addresses = [each for each in re.split(r"[,;]", hosts) if each] or ["localhost"]
    if port and len(addresses) == 1 and not _has_port(addresses[0]):
        addresses = [f"{addresses[0]}:{port}"]
    addresses += [each for text in more for each in re.split(r"[,;]", text) if each]
    settings = Settings(tls=_tls_of(ssl))
    if user:
        settings["access_key"], settings["secret_key"] = user, password or ""
    namespace = unquote(path) if found else (virtual_host or "").removeprefix("/")
    if namespace:
        settings["namespace"] = namespace
    with_ports = [each if _has_port(each) else f"{each}:{DEFAULT_PORT}" for each in addresses]
    return Place(";".join(dict.fromkeys(with_ports)), settings)


def _of_one_cluster(hostname: str, alternates: Sequence[str]) -> tuple[str, list[str]]:
    """Return the URL of the cluster that a host belongs to, and the parts without one after it."""
    clusters: list[list[str]] = []
    for each in filter(None, map(str.strip, alternates)):
        if "://" in each or not clusters:
            clusters.append([each])
        else:
            clusters[-1].append(each)
    for first, *others in clusters:
        if hostname == first or hostname in others:
            return first, others
    return hostname, []


def _has_port(address: str) -> bool:
    return bool(re.search(r":[0-9]+$", address))


def _tls_of(given: object) -> Tls | bool:
    """Return the settings of TLS for kombu's `ssl`. Raises: InvalidArgument."""
    if not isinstance(given, Mapping):
        return bool(given)
    paths: dict[str, str] = {}
    for name, path in given.items():
        if name not in _SSL:
            cause = f"{name!r} is no setting of TLS here"
            raise InvalidArgument(cause, f"Give some of {_listed(_SSL)}")
        paths[_SSL[name]] = path
    return Tls(**paths)  # type: ignore[arg-type]  # a client checks each by its name


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def shown(url: str, *, mask: str = "**") -> str:
    """Return a URL without its password."""
    return re.sub(r"(?<=://)([^@/:]*):[^@/]*(?=@)", rf"\1:{mask}", url)
