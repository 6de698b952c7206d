"""Codes 25 and 26: change and show the configuration of a running broker.

Code 25 changes only keys that no file, name server or protection goes by; see
``storage.settings_text``.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.updateBrokerConfig,
getBrokerConfig (4.9.3).
"""

from functools import partial

from wakelog.broker.config import check_value
from wakelog.broker.config_file import OBEYED_KEYS, WITHOUT_EFFECT, all_settings
from wakelog.broker.decision import ChangeLaneWaits, Outcome, RunInPool, WorkKind
from wakelog.broker.state import BrokerState
from wakelog.network.request import Request
from wakelog.protocol.bodies import encode_body
from wakelog.protocol.codes import ResponseCode
from wakelog.storage import config as store_config
from wakelog.storage.errors import IllegalConfiguration
from wakelog.storage.settings_text import (
    decode_settings,
    ignored_remark,
    parse_properties,
    settings_text,
    update_settings,
)

_LIVE_KEYS = """
    brokerPermission defaultTopicQueueNums autoCreateTopicEnable autoCreateSubscriptionGroup
    transactionTimeOut transactionCheckMax
    traceOn rejectTransactionMessage startAcceptSendRequestTimeStamp longPollingEnable
    shortPollingTimeMills slaveReadEnable notifyConsumerIdsChangedEnable flushConsumerOffsetInterval
    registerNameServerPeriod enablePropertyFilter filterSupportRetry storeReplyMessageEnable
    autoDeleteUnusedStats transactionCheckInterval compressedRegister registerBrokerTimeoutMills
"""

_LIVE_WAITS = """
    brokerFastFailureEnable waitTimeMillsInSendQueue waitTimeMillsInPullQueue
    waitTimeMillsInHeartbeatQueue waitTimeMillsInTransactionQueue
"""

_LIVE_STORE_KEYS = """
    fileReservedTime fileReservedBytes deleteWhen diskMaxUsedSpaceRatio cleanFileForciblyEnable
    cleanResourceInterval deleteCommitLogFilesInterval flushDelayOffsetInterval defaultQueryMaxNum
    enableScheduleMessageStats
"""

LIVE_STORE_KEYS = frozenset(_LIVE_STORE_KEYS.split())
"""Keys of StoreConfig that code 25 may change."""

LIVE_KEYS = LIVE_STORE_KEYS.union(_LIVE_KEYS.split(), _LIVE_WAITS.split())
"""Keys that code 25 may change."""


def update_broker_config(state: BrokerState, request: Request[None]) -> Outcome:
    """Apply the keys that may change while the broker runs (code 25).

    The remark names the keys that were ignored. If none was applied the code is 1, because mqadmin
    shows the remark of an error only.
    """
    text = decode_settings(request.command.body)

    def work() -> dict[str, str] | Exception:
        try:
            return parse_properties(text)
        except IllegalConfiguration as error:
            return error

    return RunInPool(work, partial(_apply, state, request), WorkKind.ENCODE)


def _apply(
    state: BrokerState,
    request: Request[None],
    given: dict[str, str] | Exception,
    now_ms: int,
) -> Outcome:
    if isinstance(given, Exception):
        raise given
    configs = state.config, state.store_config
    update = update_settings(configs, given, LIVE_KEYS, check_live)
    if not set(_LIVE_WAITS.split()).isdisjoint(update.applied):
        state.instructions.append(ChangeLaneWaits())
    if update.applied:
        state.config_version = state.config_version.next(request.now_ms)
    if "autoCreateTopicEnable" in update.applied and state.config.auto_create_topic_enable:
        state.topics.ensure_auto_create_topic(request.now_ms)
    if "brokerPermission" in update.applied:
        state.topics.next_version(request.now_ms)
    if not update.ignored:
        return request.success()
    code = ResponseCode.SUCCESS if update.applied else ResponseCode.SYSTEM_ERROR
    remark = ignored_remark(update.ignored, "broker", OBEYED_KEYS, WITHOUT_EFFECT)
    return request.refusal(code, remark)


def check_live(key: str, value: object) -> None:
    """Refuse a value of a live key that cannot be used. Raises: IllegalConfiguration."""
    check = store_config.check_value if key in LIVE_STORE_KEYS else check_value
    check(key, value)


def get_broker_config(state: BrokerState, request: Request[None]) -> Outcome:
    """Return every key with its value, and the version of the configuration (code 26)."""
    text = settings_text(all_settings(state.settings))
    return request.success({"version": encode_body(state.config_version).decode()}, text.encode())
