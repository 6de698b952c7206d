"""Codes 25 and 26: change and show the configuration of a running broker.

Code 25 changes only keys that are read again at every use and that affect this broker's clients
only. No path, command, address or name is among them. 4.9.3 accepts any key: hence CVE-2023-33246
(a start script run from a changed home) and CVE-2023-37582 (a file written to a changed path). A
change lasts until the broker stops. 4.9.3 rewrites its configuration file, which opened the second
hole.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.updateBrokerConfig,
getBrokerConfig, org.apache.rocketmq.common.Configuration (4.9.3).
"""

from collections.abc import Mapping

import msgspec

from wakelog.broker.config import BrokerConfig, check_range
from wakelog.broker.config_file import all_settings, convert_value, parse_properties
from wakelog.broker.decision import Outcome
from wakelog.broker.state import BrokerState
from wakelog.network.request import Request
from wakelog.protocol.bodies import encode_body
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError

_LIVE_KEYS = """
    brokerPermission defaultTopicQueueNums autoCreateTopicEnable autoCreateSubscriptionGroup
    traceOn rejectTransactionMessage startAcceptSendRequestTimeStamp longPollingEnable
    shortPollingTimeMills slaveReadEnable notifyConsumerIdsChangedEnable flushConsumerOffsetInterval
    registerNameServerPeriod
"""

LIVE_KEYS = frozenset(_LIVE_KEYS.split())
"""Keys that code 25 may change."""

_FIELDS = {field.encode_name: field for field in msgspec.structs.fields(BrokerConfig)}

assert _FIELDS.keys() >= LIVE_KEYS

BODY_BYTES_MAX = 65_536  # all 191 keys of 4.9.3 with long values are under 16 KiB


class ConfigUpdate(msgspec.Struct, frozen=True):
    """The keys of one update, by what happened to them."""

    applied: tuple[str, ...]
    ignored: tuple[str, ...]


def update_broker_config(state: BrokerState, request: Request[None]) -> Outcome:
    """Apply the keys that may change while the broker runs (code 25).

    The remark names the keys that were ignored. If none was applied the code is 1, because mqadmin
    shows the remark of an error only.
    """
    update = update_config(state.config, _body_text(request.command.body))
    if update.applied:
        state.config_version = state.config_version.next(request.now_ms)
    if "autoCreateTopicEnable" in update.applied and state.config.auto_create_topic_enable:
        state.topics.ensure_auto_create_topic(request.now_ms)
    if "brokerPermission" in update.applied:
        state.topics.next_version(request.now_ms)
    if not update.ignored:
        return request.success()
    code = ResponseCode.SUCCESS if update.applied else ResponseCode.SYSTEM_ERROR
    names = ", ".join(update.ignored)
    return request.refusal(code, f"not changed while the broker runs, set at start: {names}")


def get_broker_config(state: BrokerState, request: Request[None]) -> Outcome:
    """Return every key with its value, and the version of the configuration (code 26)."""
    text = properties_text(all_settings(state.settings))
    return request.success({"version": encode_body(state.config_version).decode()}, text.encode())


def _body_text(body: bytes) -> str:
    if len(body) > BODY_BYTES_MAX:
        remark = f"a configuration of {len(body)} bytes"
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, "string2Properties error") from None


def update_config(config: BrokerConfig, text: str) -> ConfigUpdate:
    """Apply the live keys of properties text; either all of them or, when one is wrong, none.

    Raises: IllegalConfiguration for a live key with a value that cannot be used.
    """
    given = parse_properties(text)
    live = sorted(given.keys() & LIVE_KEYS)
    changes = {}
    for key in live:
        field = _FIELDS[key]
        value = convert_value(key, given[key], field.type)
        check_range(key, value)
        changes[field.name] = value
    for name, value in changes.items():
        setattr(config, name, value)
    return ConfigUpdate(tuple(live), tuple(sorted(given.keys() - LIVE_KEYS)))


def properties_text(settings: Mapping[str, str]) -> str:
    """Write settings, one ``key=value`` a line, as in the response to code 26."""
    return "".join(f"{key}={value}\n" for key, value in sorted(settings.items()))
