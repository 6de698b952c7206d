"""Codes 25 and 26: change and show the configuration of a running broker.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.updateBrokerConfig,
getBrokerConfig (4.9.3); what may be changed is in ``config_update``.
"""

from wakelog.broker.config_file import all_settings
from wakelog.broker.config_update import BODY_BYTES_MAX, properties_text, update_config
from wakelog.broker.decision import Channel, Outcome
from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import encode_body
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError


def update_broker_config(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Apply the keys that may change while the broker runs (code 25).

    The remark names what was ignored. With nothing applied the answer is code 1, since mqadmin
    shows a remark of errors only.
    """
    update = update_config(state.config, _body_text(request))
    if update.applied:
        state.config_version = state.config_version.next(now_ms)
    if "autoCreateTopicEnable" in update.applied and state.config.auto_create_topic_enable:
        state.topics.ensure_auto_create_topic(now_ms)
    if "brokerPermission" in update.applied:
        state.topics.next_version(now_ms)
    if not update.ignored:
        return answer(request, ResponseCode.SUCCESS)
    code = ResponseCode.SUCCESS if update.applied else ResponseCode.SYSTEM_ERROR
    names = ", ".join(update.ignored)
    return answer(request, code, f"not changed while the broker runs, set at start: {names}")


def get_broker_config(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer every key with its value, and the version of the configuration (code 26)."""
    text = properties_text(all_settings(state.settings))
    fields = {"version": encode_body(state.config_version).decode()}
    return answer(request, ResponseCode.SUCCESS, None, fields, text.encode())


def _body_text(request: RemotingCommand) -> str:
    if len(request.body) > BODY_BYTES_MAX:
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR, f"a configuration of {len(request.body)} bytes"
        )
    try:
        return request.body.decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, "string2Properties error") from None
