"""Where a setting comes from, as far as its value says: brokers and name servers tell no more."""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Final

from wakelog.broker import config_file
from wakelog.nameserver import config as name_server_config
from wakelog.nameserver.config import NameServerConfig, NameServerSettings

BY_DEFAULT, CHOSEN, OF_HOST, NOT_KNOWN = "by default", "given or changed", "of its host", ""

_HERE: Final = {"storePathRootDir": "/", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1"}


_OF_HOST: Final = frozenset(
    {
        *_HERE,
        *("storePathCommitLog", "readOnlyCommitLogStorePaths", "rocketmqHome", "brokerConfigPath"),
        *("configStorePath", "kvConfigPath", "haMasterAddress", "namesrvAddr"),
    }
)
"""Keys that say where files are, and where servers are reached."""


def origin(key: str, values: Collection[str], usual: Mapping[str, str]) -> str:
    """Return where the values of a key come from, one for each server that has it.

    usual: what keys are if nobody sets them.
    """
    if key in _OF_HOST:
        return OF_HOST
    if key not in usual:
        return NOT_KNOWN
    return BY_DEFAULT if set(values) == {usual[key]} else CHOSEN


def broker_origin(key: str, value: str) -> str:
    """Return where a setting of a broker comes from."""
    return origin(key, (value,), broker_defaults())


def name_server_origin(key: str, values: Collection[str]) -> str:
    """Return where a setting of name servers comes from."""
    return origin(key, values, name_server_defaults())


@cache
def broker_defaults() -> Mapping[str, str]:
    """Return what keys of a broker are if nobody sets them."""
    return config_file.all_settings(config_file.read_broker_conf("", overrides=_HERE))


@cache
def name_server_defaults() -> Mapping[str, str]:
    """Return what keys of a name server are if nobody sets them."""
    settings = NameServerSettings(NameServerConfig(kv_config_path="-"))
    return name_server_config.all_settings(settings)
