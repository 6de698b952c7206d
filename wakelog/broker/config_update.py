"""Changing a running broker: the keys that code 25 may change, and the text of code 26.

Code 25 changes only keys that are read again at every use and that affect this broker's clients
only. No path, command, address or name is among them. 4.9.3 accepts any key: hence CVE-2023-33246
(a start script run from a changed home) and CVE-2023-37582 (a file written to a changed path). A
change lasts until the broker stops. 4.9.3 rewrites its configuration file, which opened the second
hole.

Source: org.apache.rocketmq.common.Configuration, AdminBrokerProcessor.updateBrokerConfig (4.9.3).
"""

from collections.abc import Mapping

import msgspec

from wakelog.broker.config import BrokerConfig, check_range
from wakelog.broker.config_file import convert_value, field_types, parse_properties

_LIVE_KEYS = """
    brokerPermission defaultTopicQueueNums autoCreateTopicEnable autoCreateSubscriptionGroup
    traceOn rejectTransactionMessage startAcceptSendRequestTimeStamp longPollingEnable
    shortPollingTimeMills slaveReadEnable notifyConsumerIdsChangedEnable flushConsumerOffsetInterval
    registerNameServerPeriod
"""

LIVE_KEYS = frozenset(_LIVE_KEYS.split())
"""Keys that code 25 may change."""

assert field_types(BrokerConfig).keys() >= LIVE_KEYS

BODY_BYTES_MAX = 65_536  # all 191 keys of 4.9.3 with long values are under 16 KiB


class ConfigUpdate(msgspec.Struct, frozen=True):
    """The keys of one update, by what happened to them."""

    applied: tuple[str, ...]
    ignored: tuple[str, ...]


def update_config(config: BrokerConfig, text: str) -> ConfigUpdate:
    """Apply the live keys of properties text; either all of them or, when one is wrong, none.

    Raises: IllegalConfiguration for a live key with a value that cannot be used.
    """
    given = parse_properties(text)
    changes = _read_changes(given)
    for field in msgspec.structs.fields(config):
        if field.encode_name in changes:
            setattr(config, field.name, changes[field.encode_name])
    ignored = tuple(sorted(given.keys() - changes.keys()))
    return ConfigUpdate(applied=tuple(sorted(changes)), ignored=ignored)


def properties_text(settings: Mapping[str, str]) -> str:
    """Write settings, one ``key=value`` a line, as in the response to code 26."""
    return "".join(f"{key}={value}\n" for key, value in sorted(settings.items()))


def _read_changes(given: Mapping[str, str]) -> dict[str, object]:
    annotations = field_types(BrokerConfig)
    changes = {}
    for key in sorted(given.keys() & LIVE_KEYS):
        value = convert_value(key, given[key], annotations[key])
        check_range(key, value)
        changes[key] = value
    return changes
