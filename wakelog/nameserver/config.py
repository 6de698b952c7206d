"""NameServerConfig: the settings of 4.9.3's NamesrvConfig that wakelog obeys, and their change.

Fields are in snake case; codes 318 and 319 use 4.9.3's names and defaults.

Source: org.apache.rocketmq.common.namesrv.NamesrvConfig,
org.apache.rocketmq.namesrv.NamesrvStartup (4.9.3).
"""

from collections.abc import Mapping
from functools import partial
from posixpath import dirname, join

import msgspec

from wakelog.network.netty_keys import NETTY_SERVER_ROWS
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.live_settings import TABLE, Change, LiveSettings, Rules
from wakelog.storage.settings_text import (
    Live,
    keys_without_effect,
    read_settings,
    settings_of,
    shown_defaults,
)

DEFAULT_LISTEN_PORT = 9876  # NamesrvStartup's, not NettyServerConfig's 8888
LOCK_NAME = "wakelog.namesrv.lock"  # a broker may have its store in the same folder


class NameServerConfig(msgspec.Struct, kw_only=True, rename="camel"):
    """Settings of one name server; its files are in the folder of ``kv_config_path``."""

    kv_config_path: str
    order_message_enable: Live[bool] = False
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
        "changes are kept beside kvConfigPath": "configStorePath=",
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

FIXED_KEYS = dict.fromkeys(
    ("kvConfigPath", "configStorePath", "rocketmqHome", "configBlackList"),
    "no request says where files are read or written; give it at the start",
)
"""Keys that no request changes, and why; so do later releases of RocketMQ."""


class NameServerSettings(msgspec.Struct, frozen=True):
    """The settings of a name server, and what requests have changed before, by key.

    others: the values of keys without effect that are not their defaults.
    """

    config: NameServerConfig
    others: dict[str, str] = {}
    changes: dict[str, Change] = {}


def path_of_file(config: NameServerConfig, name: str) -> str:
    """Return where the file of this name is: kvConfig.json, and beside it the changes."""
    if name == f"{TABLE}.json":
        return join(dirname(config.kv_config_path), name)
    return config.kv_config_path


def path_of_lock(config: NameServerConfig) -> str:
    """Return the file by which one process has the folder of the files."""
    return join(dirname(config.kv_config_path), LOCK_NAME)


def all_settings(settings: NameServerSettings) -> dict[str, str]:
    """Return every key of 4.9.3's name server with its value."""
    return shown_defaults(KEYS_WITHOUT_EFFECT) | settings.others | settings_of(settings.config)


def read_name_server_conf(given: Mapping[str, str]) -> NameServerSettings:
    """Return the settings of a namesrv.conf. Raises: IllegalConfiguration."""
    config = read_settings(NameServerConfig, given)
    others = {key: given[key] for key in given if key in KEYS_WITHOUT_EFFECT}
    return NameServerSettings(config, others)


def with_changes(settings: NameServerSettings, held: Mapping[str, Change]) -> NameServerSettings:
    """Return the settings of a start with changes that hold. Raises: IllegalConfiguration."""
    values = {key: one.value for key, one in held.items()}
    config = read_settings(NameServerConfig, all_settings(settings) | values)
    others = {key: values[key] for key in values if key in KEYS_WITHOUT_EFFECT}
    return NameServerSettings(config, settings.others | others, dict(held))


def live_settings(settings: NameServerSettings) -> LiveSettings:
    """Return the settings of a name server as requests change them."""
    rules = Rules(
        shown=partial(all_settings, settings),
        make_settings=partial(read_settings, NameServerConfig),
        without_effect=KEYS_WITHOUT_EFFECT,
        fixed=FIXED_KEYS,
        unknown=lambda key: f"{key} is not a key of RocketMQ 4.9.3's name server",
    )
    return LiveSettings(rules, (settings.config,), settings.others, settings.changes)


def _check(key: str, value: object) -> None:
    if isinstance(value, str) and not value.isprintable():
        raise IllegalConfiguration(key, repr(value), "printable characters on one line")
    if key == "kvConfigPath" and not value:
        raise IllegalConfiguration(key, value, "the path of a file")
    if isinstance(value, int) and not isinstance(value, bool):
        low, high = RANGES[key]
        if not low <= value <= high:
            raise IllegalConfiguration(key, value, f"{low} to {high}")
