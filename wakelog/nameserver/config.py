"""NameServerConfig: the settings of 4.9.3's NamesrvConfig that wakelog obeys, and their change.

Fields are in snake case; codes 318 and 319 use 4.9.3's names and defaults. Code 318 changes a
running name server: only LIVE_KEYS, and only with values of one line. 4.9.3 writes the file at
configStorePath, which is one of the keys, so any client could write any file (CVE-2023-37582).

Source: org.apache.rocketmq.common.namesrv.NamesrvConfig,
org.apache.rocketmq.namesrv.NamesrvStartup (4.9.3).
"""

import msgspec

from wakelog.network.netty_keys import NETTY_SERVER_ROWS
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.settings_text import (
    SettingsUpdate,
    keys_without_effect,
    parse_properties,
    settings_of,
    shown_defaults,
    update_settings,
)

DEFAULT_LISTEN_PORT = 9876  # NamesrvStartup's, not NettyServerConfig's 8888


class NameServerConfig(msgspec.Struct, kw_only=True, rename="camel"):
    """Settings of one name server; ``kv_config_path`` is the only file it writes."""

    kv_config_path: str
    order_message_enable: bool = False
    listen_port: int = DEFAULT_LISTEN_PORT
    server_channel_max_idle_time_seconds: int = 120
    server_socket_backlog: int = 1_024

    def __post_init__(self) -> None:
        """Check each value. Raises: IllegalConfiguration."""
        for field in msgspec.structs.fields(self):
            _check(field.encode_name, getattr(self, field.name))


KEYS_WITHOUT_EFFECT = keys_without_effect(
    {
        **NETTY_SERVER_ROWS,
        "nothing is read from a home directory": "rocketmqHome=",
        "code 318 writes no file": "configStorePath=",
        "routes of another environment's name server are not there": """
            clusterTest=false productEnvName=center
        """,
    }
)
"""Keys of NamesrvConfig and NettyServerConfig that do nothing.

To obey one, take it out here and make it a field of NameServerConfig.
"""

RANGES = {
    "listenPort": (0, 65_535),
    "serverChannelMaxIdleTimeSeconds": (1, 86_400),
    "serverSocketBacklog": (1, 65_535),
}
"""Ranges of numbers by key; port 0 means any, for tests."""

LIVE_KEYS = frozenset({"orderMessageEnable"})
"""Keys that code 318 may change: no path, no name, no address."""


def all_settings(config: NameServerConfig) -> dict[str, str]:
    """Return every key of 4.9.3's name server with its value."""
    return shown_defaults(KEYS_WITHOUT_EFFECT) | settings_of(config)


def update_config(config: NameServerConfig, text: str) -> SettingsUpdate:
    """Apply the live keys of properties text; either all of them or, when one is wrong, none.

    Raises: IllegalConfiguration for a value that cannot be used, whatever its key.
    """
    given = parse_properties(text, name="the body", what="text")
    for key, value in given.items():
        _check(key, value)
    return update_settings([config], given, LIVE_KEYS, _check)


def _check(key: str, value: object) -> None:
    if isinstance(value, str) and not value.isprintable():
        raise IllegalConfiguration(key, repr(value), "printable characters on one line")
    if key == "kvConfigPath" and not value:
        raise IllegalConfiguration(key, value, "the path of a file")
    if isinstance(value, int) and not isinstance(value, bool):
        low, high = RANGES[key]
        if not low <= value <= high:
            raise IllegalConfiguration(key, value, f"{low} to {high}")
