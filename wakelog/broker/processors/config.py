"""Codes 25 and 26: change and show the configuration of a running broker.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.updateBrokerConfig,
getBrokerConfig (4.9.3).
"""

from collections.abc import Collection
from functools import partial

from wakelog.broker.decision import Appender, Outcome, Persist, UseSettings, WriteLine
from wakelog.broker.effects import InPool, Saved, Work, WorkKind
from wakelog.broker.state import BrokerState
from wakelog.network.driver import NOW
from wakelog.network.request import Request
from wakelog.protocol.bodies import encode_body
from wakelog.protocol.codes import ResponseCode
from wakelog.storage.live_settings import TABLE, Update, not_saved, waiting_field
from wakelog.storage.settings_text import decode_settings, parse_properties, settings_text


def update_broker_config(state: BrokerState, request: Request[None]) -> Work:
    """Change the configuration for now and for later starts (code 25).

    The remark names the keys that wait for a restart, and those without effect.
    """
    text = decode_settings(request.command.body)
    update = state.live.begin((yield InPool(partial(parse_properties, text), WorkKind.ENCODE)))
    if not state.live.is_saving:
        state.live.abandon(update)
        return request.success()
    why_not = yield Saved((Persist(TABLE, partial(state.live.abandon, update)),))
    return _apply(state, request, update, why_not, (yield NOW))


def _apply(
    state: BrokerState, request: Request[None], update: Update, why_not: str, now_ms: int
) -> Outcome:
    if why_not:
        return request.refusal(ResponseCode.SYSTEM_ERROR, not_saved(why_not))
    keys = state.live.finish(update)
    if not update:
        return request.success()  # another request has made this change
    if keys.at_once:
        use_settings(state, keys.at_once, now_ms)
    state.config_version = state.config_version.next(now_ms)
    values = {key: update[key].value for key in sorted(update)}
    line = {"keys": values, "sender": request.channel.remote_host, "remark": keys.remark or ""}
    state.instructions.append(WriteLine(Appender.BROKER, "configuration changed", line))
    response = request.success()
    response.remark = keys.remark
    return response


def use_settings(state: BrokerState, keys: Collection[str], now_ms: int) -> None:
    """Follow the new values of keys that change at once."""
    state.instructions.append(UseSettings())
    state.replicas.behind_bytes_max = state.store_config.ha_slave_fallbehind_bytes_max
    if "autoCreateTopicEnable" in keys and state.config.auto_create_topic_enable:
        state.topics.ensure_auto_create_topic(now_ms)
    if "brokerPermission" in keys:
        state.topics.next_version(now_ms)


def get_broker_config(state: BrokerState, request: Request[None]) -> Outcome:
    """Return every key with its value, and the version of the configuration (code 26).

    A key that waits for a restart has its new value; a field of ours has the one in use.
    """
    fields = {"version": encode_body(state.config_version).decode()}
    text = settings_text(state.live.shown())
    return request.success(fields | waiting_field(state.live.waiting()), text.encode())
