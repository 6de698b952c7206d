"""Changing a running broker: which keys of code 25 are taken, and what code 26 shows.

Only keys that are read anew at every use and that can harm nobody but this broker's clients are
taken. No key that is a path, a command, an address or a name is among them: 4.9.3 took any, and
that was CVE-2023-33246 (a start script run from a changed home) and CVE-2023-37582 (a file
written to a changed path). A change holds until the broker stops; 4.9.3 rewrites the file it
was started with, which is what made the second hole.

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
    """What became of the keys of one update."""

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
    """Write settings as code 26 answers them: one ``key=value`` a line."""
    return "".join(f"{key}={value}\n" for key, value in sorted(settings.items()))


def _read_changes(given: Mapping[str, str]) -> dict[str, object]:
    annotations = field_types(BrokerConfig)
    changes = {}
    for key in sorted(given.keys() & LIVE_KEYS):
        value = convert_value(key, given[key], annotations[key])
        check_range(key, value)
        changes[key] = value
    return changes
