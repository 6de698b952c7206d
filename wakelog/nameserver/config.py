"""NameServerConfig: the settings of 4.9.3's NamesrvConfig that wakelog obeys, and their change.

Fields are in snake case; codes 318 and 319 use 4.9.3's names and defaults. Code 318 changes a
running name server: only LIVE_KEYS, only with values of one line, and only until it stops. 4.9.3
takes any key and writes the file at configStorePath, which is one of the keys. So every client that
reaches its port can write any file (CVE-2023-37582).

Source: org.apache.rocketmq.common.namesrv.NamesrvConfig,
org.apache.rocketmq.namesrv.NamesrvStartup, org.apache.rocketmq.common.Configuration (4.9.3).
"""

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

_FIELDS = {field.encode_name: field for field in msgspec.structs.fields(NameServerConfig)}

assert _FIELDS.keys() >= LIVE_KEYS | RANGES.keys()


def parse_properties(text: str) -> dict[str, str]:
    """Read java.util.Properties text.

    Raises: IllegalConfiguration for an escape that Java would refuse.
    """
    try:
        return {key: value.strip() for key, value in javaproperties.loads(text).items()}
    except ValueError as error:
        raise IllegalConfiguration("the body", "text", f"Java properties: {error}") from None


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


def config_text(config: NameServerConfig) -> str:
    """Write every key with its value, one ``key=value`` a line, as in the response to code 319."""
    shown = {key: getattr(config, field.name) for key, field in _FIELDS.items()}
    return "".join(
        f"{key}={str(value).lower() if isinstance(value, bool) else value}\n"
        for key, value in sorted(shown.items())
    )


def _convert(key: str, text: str) -> Any:
    try:
        return msgspec.convert(text, _FIELDS[key].type, strict=False)
    except msgspec.ValidationError:
        raise IllegalConfiguration(key, text, "true or false") from None


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
