"""Codes 25 and 26: change and show the configuration of a running broker.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.updateBrokerConfig,
getBrokerConfig (4.9.3). ``config_update`` decides which keys may change.
"""

from wakelog.broker.config_file import all_settings
from wakelog.broker.config_update import BODY_BYTES_MAX, properties_text, update_config
from wakelog.broker.decision import Outcome
from wakelog.broker.state import BrokerState
from wakelog.network.request import Request
from wakelog.protocol.bodies import encode_body
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError


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
