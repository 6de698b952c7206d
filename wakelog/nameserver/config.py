"""NameServerConfig: the settings of 4.9.3's NamesrvConfig that wakelog obeys, and their change.

Fields are in snake case. namesrv.conf and codes 318 and 319 use 4.9.3's names and defaults. Code
318 changes a running name server: only LIVE_KEYS, only with values of one line, and only until it
stops. 4.9.3 takes any key and writes the file at configStorePath, which is one of the keys. So
every client that reaches its port can write any file (CVE-2023-37582).

Source: org.apache.rocketmq.common.namesrv.NamesrvConfig,
org.apache.rocketmq.namesrv.NamesrvStartup, org.apache.rocketmq.common.Configuration (4.9.3).
"""

import difflib
from collections.abc import Mapping
from typing import Any

import javaproperties
import msgspec

from wakelog.storage.errors import IllegalConfiguration

DEFAULT_LISTEN_PORT = 9876  # NamesrvStartup's, not NettyServerConfig's 8888

BODY_BYTES_MAX = 65_536  # every key of 4.9.3's two objects with long values is under 4 KiB


class NameServerConfig(msgspec.Struct, kw_only=True, rename="camel"):
    """Settings of one name server; ``kv_config_path`` is the only file it writes."""

    kv_config_path: str
    rocketmq_home: str = ""
    config_store_path: str = ""
    product_env_name: str = "center"
    cluster_test: bool = False
    order_message_enable: bool = False
    listen_port: int = DEFAULT_LISTEN_PORT
    server_channel_max_idle_time_seconds: int = 120
    server_socket_backlog: int = 1_024

    def __post_init__(self) -> None:
        """Check each value. Raises: IllegalConfiguration."""
        for field in msgspec.structs.fields(self):
            _check(field.encode_name, getattr(self, field.name))


class NameServerSettings(msgspec.Struct, frozen=True):
    """The settings of a name server, with unknown keys and warnings."""

    config: NameServerConfig
    unknown: dict[str, str]
    warnings: tuple[str, ...]


class ConfigUpdate(msgspec.Struct, frozen=True):
    """The keys of one update, by what happened to them."""

    applied: tuple[str, ...]
    ignored: tuple[str, ...]


RANGES = {
    "listenPort": (0, 65_535),
    "serverChannelMaxIdleTimeSeconds": (1, 86_400),
    "serverSocketBacklog": (1, 65_535),
}
"""Ranges of numbers by key; port 0 means any, for tests."""

LIVE_KEYS = frozenset({"orderMessageEnable"})
"""Keys that code 318 may change: no path, no name, no address."""

_KEYS_WITHOUT_EFFECT = """
    serverWorkerThreads serverCallbackExecutorThreads serverSelectorThreads
    serverOnewaySemaphoreValue serverAsyncSemaphoreValue serverSocketSndBufSize
    serverSocketRcvBufSize writeBufferHighWaterMark writeBufferLowWaterMark
    serverPooledByteBufAllocatorEnable useEpollNativeSelector
"""

KEYS_WITHOUT_EFFECT = frozenset(_KEYS_WITHOUT_EFFECT.split())
"""Keys of 4.9.3 that are accepted and have no effect here."""

_FIELDS = {field.encode_name: field for field in msgspec.structs.fields(NameServerConfig)}

assert _FIELDS.keys() >= LIVE_KEYS | RANGES.keys()


def read_name_server_conf(
    text: str,
    *,
    defaults: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> NameServerSettings:
    """Make the settings of a name server from the text of a namesrv.conf.

    defaults: values of keys that the file does not have. One of the three must have kvConfigPath.

    Raises: IllegalConfiguration for a value that cannot be used.
    """
    layers = {**(defaults or {}), **parse_properties(text), **(overrides or {})}
    values = {key: layers[key] for key in _FIELDS if key in layers}
    kept = {key: value for key, value in layers.items() if key not in _FIELDS}
    values.setdefault("kvConfigPath", "")
    changes = {_FIELDS[key].name: _convert(key, value) for key, value in values.items()}
    return NameServerSettings(NameServerConfig(**changes), kept, tuple(map(_warning, kept)))


def parse_properties(text: str) -> dict[str, str]:
    """Read java.util.Properties text.

    Raises: IllegalConfiguration for an escape that Java would refuse.
    """
    try:
        return {key: value.strip() for key, value in javaproperties.loads(text).items()}
    except ValueError as error:
        raise IllegalConfiguration("namesrv.conf", "text", f"Java properties: {error}") from None


def update_config(config: NameServerConfig, text: str) -> ConfigUpdate:
    """Apply the live keys of properties text; either all of them or, when one is wrong, none.

    Raises: IllegalConfiguration for a value that cannot be used, whatever its key.
    """
    given = parse_properties(text)
    for key, value in given.items():
        _check(key, value)
    changes = {key: _convert(key, given[key]) for key in sorted(given.keys() & LIVE_KEYS)}
    for key, value in changes.items():
        _check(key, value)
    for key, value in changes.items():
        setattr(config, _FIELDS[key].name, value)
    return ConfigUpdate(tuple(changes), tuple(sorted(given.keys() - changes.keys())))


def settings_text(settings: NameServerSettings) -> str:
    """Write every key with its value, one ``key=value`` a line, as in the response to code 319."""
    shown = dict(settings.unknown)
    for key, field in _FIELDS.items():
        value = getattr(settings.config, field.name)
        shown[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return "".join(f"{key}={value}\n" for key, value in sorted(shown.items()))


def _convert(key: str, text: str) -> Any:
    try:
        return msgspec.convert(text, _FIELDS[key].type, strict=False)
    except msgspec.ValidationError:
        accepted = "true or false" if _FIELDS[key].type is bool else "a whole number"
        raise IllegalConfiguration(key, text, accepted) from None


def _check(key: str, value: object) -> None:
    if isinstance(value, str) and not value.isprintable():
        raise IllegalConfiguration(key, repr(value), "printable characters on one line")
    if key == "kvConfigPath" and not value:
        raise IllegalConfiguration(key, value, "the path of a file")
    if key == "clusterTest" and value is True:
        accepted = "false: routes of another environment's name server are not there"
        raise IllegalConfiguration(key, "true", accepted)
    if isinstance(value, int) and not isinstance(value, bool):
        low, high = RANGES[key]
        if not low <= value <= high:
            raise IllegalConfiguration(key, value, f"{low} to {high}")


def _warning(key: str) -> str:
    if key in KEYS_WITHOUT_EFFECT:
        return f"{key} has no effect here"
    by_lower = {name.lower(): name for name in sorted(_FIELDS)}
    near = difflib.get_close_matches(key.lower(), by_lower, n=1)
    hint = f"; did you mean {by_lower[near[0]]}?" if near else ""
    return f"{key} is not a key of RocketMQ 4.9.3's name server and is ignored{hint}"
