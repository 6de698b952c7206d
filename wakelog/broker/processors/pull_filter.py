"""Which messages a pull wants: from its own header, or from the heartbeat of its group.

A pull with the subscription flag brings its expression. A pull without it, as every push consumer
sends, uses the subscription in the group's last heartbeat, unless the pull knows a newer one. The
Go client sends type TAG and an empty expression without the flag, whatever it subscribes to; so the
header's expression counts only with the flag.

A filter by tag tests consume queue entries. A filter by expression (SQL92, with
enablePropertyFilter) tests the properties of each record. Only an expression from a heartbeat has
bits in the bitmaps of extension units, which are tested first. With filterSupportRetry, the pulls
of a retry topic are filtered by the expression for the topic that a message first came from.

Source: org.apache.rocketmq.broker.processor.PullMessageProcessor,
org.apache.rocketmq.broker.filter.ExpressionMessageFilter (4.9.3). A header with an expression that
does not compile is refused here. In 4.9.3 every message passes: its check is an `assert`.
"""

from contextlib import suppress
from typing import NamedTuple, TypeAlias

from wakelog.broker.names import FAQ_HINT
from wakelog.broker.state import BrokerState
from wakelog.filter import sql92
from wakelog.filter.consumer_filters import ConsumerFilter
from wakelog.filter.errors import IllegalExpression
from wakelog.filter.limits import LOOP_CHARACTERS_MAX
from wakelog.filter.record_filter import (
    MatchRecord,
    MatchUnit,
    match_bitmap,
    match_expression,
    match_origin,
)
from wakelog.filter.sql92 import Sql92Filter, compile_in_steps, known_filter
from wakelog.protocol.bodies import (
    MODEL_BROADCASTING,
    SUBSCRIBE_ALL,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers.pull import PullMessageRequestHeader
from wakelog.protocol.names import RETRY_PREFIX
from wakelog.protocol.steps import Steps
from wakelog.protocol.subscription import build_subscription, is_tag_type
from wakelog.protocol.sys_flag import PULL_SUBSCRIPTION

TagCodes: TypeAlias = frozenset[int] | None
"""The tag hashes that pass; None lets every message pass."""


class PullFilter(NamedTuple):
    """What passes: an entry by its tags code or its unit, then its record by its contents.

    is_long: whether its expressions may take too long to judge a hundred records on a loop.
    """

    codes: TagCodes = None
    match_record: MatchRecord | None = None
    match_unit: MatchUnit | None = None
    is_long: bool = False


ANY_MESSAGE = PullFilter()
"""Lets all pass. Held pulls share it."""


def find_filter(
    state: BrokerState, header: PullMessageRequestHeader, group: SubscriptionGroupConfig
) -> PullFilter:
    """Return what passes. Raises: RemoteProtocolError with 4.9.3's code if that is unknown."""
    with_flag = header.sys_flag & PULL_SUBSCRIPTION
    subscription = _from_header(header) if with_flag else _from_heartbeat(state, header, group)
    expression, match_unit = None, None
    if not is_tag_type(subscription.expression_type):
        # The order of the refusals differs between the two cases, as in 4.9.3.
        kept = None if with_flag else _kept_filter(state, header)
        check_filters_by(state, subscription.expression_type)
        expression = _compiled(state, header) if kept is None else kept.compiled
        match_unit = None if kept is None else match_bitmap(state.filters.bloom, kept)
    if subscription.class_filter_mode:
        return ANY_MESSAGE
    by_origin = _by_origin(state, header.topic)
    if expression is not None:
        is_long = by_origin is not None or len(expression.text) > LOOP_CHARACTERS_MAX
        return PullFilter(None, by_origin or match_expression(expression), match_unit, is_long)
    all_tags = subscription.sub_string == SUBSCRIBE_ALL
    if all_tags and by_origin is None:
        return ANY_MESSAGE
    codes = None if all_tags else frozenset(subscription.code_set)
    return PullFilter(codes, by_origin, is_long=by_origin is not None)


def check_filters_by(state: BrokerState, expression_type: str) -> None:
    """Check that filters by expression are on. Raises: RemoteProtocolError with 4.9.3's remark."""
    if not state.config.enable_property_filter:
        remark = f"The broker does not support consumer to filter message by {expression_type}"
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)


def _by_origin(state: BrokerState, topic: str) -> MatchRecord | None:
    """Return the filter of a retry topic; None if its messages are not filtered again."""
    if not state.config.filter_support_retry or not topic.startswith(RETRY_PREFIX):
        return None
    return match_origin(state.filters.of_group(topic.removeprefix(RETRY_PREFIX)))


def compile_expression(
    state: BrokerState, header: PullMessageRequestHeader
) -> Steps[Sql92Filter | None] | None:
    """Return the steps that compile the expression of a pull; None if it needs none."""
    if header.expression_type != sql92.TYPE or not header.sys_flag & PULL_SUBSCRIPTION:
        return None
    expression, factor = header.subscription or "", state.config.request_limit_factor
    if not state.config.enable_property_filter or known_filter(expression, factor) is not None:
        return None
    return _compile(expression, factor)


def _compile(expression: str, factor: int) -> Steps[Sql92Filter | None]:
    with suppress(IllegalExpression):
        return (yield from compile_in_steps(expression, factor))
    return None


def _compiled(state: BrokerState, header: PullMessageRequestHeader) -> Sql92Filter:
    found = None
    if header.expression_type == sql92.TYPE:
        found = known_filter(header.subscription or "", state.config.request_limit_factor)
    if isinstance(found, Sql92Filter):
        return found
    raise _unparsable()


def _kept_filter(state: BrokerState, header: PullMessageRequestHeader) -> ConsumerFilter:
    kept = state.filters.get(header.topic, header.consumer_group)
    if kept is None:
        remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
        raise RemoteProtocolError(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
    if kept.version < header.sub_version:
        remark = "the consumer's consumer filter data not latest"
        raise RemoteProtocolError(ResponseCode.FILTER_DATA_NOT_LATEST, remark)
    return kept


def _from_header(header: PullMessageRequestHeader) -> SubscriptionData:
    try:
        return build_subscription(header.topic, header.subscription, header.expression_type)
    except RemoteProtocolError:
        raise _unparsable() from None


def _unparsable() -> RemoteProtocolError:
    remark = "parse the consumer's subscription failed"
    return RemoteProtocolError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)


def _from_heartbeat(
    state: BrokerState, header: PullMessageRequestHeader, group: SubscriptionGroupConfig
) -> SubscriptionData:
    online = state.consumers.get(header.consumer_group)
    if online is None:
        remark = f"the consumer's group info not exist{FAQ_HINT}"
        raise RemoteProtocolError(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if not group.consume_broadcast_enable and online.message_model == MODEL_BROADCASTING:
        remark = f"the consumer group[{header.consumer_group}] can not consume by broadcast way"
        raise RemoteProtocolError(ResponseCode.NO_PERMISSION, remark)
    subscription = online.subscriptions.get(header.topic)
    if subscription is None:
        remark = f"the consumer's subscription not exist{FAQ_HINT}"
        raise RemoteProtocolError(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if (subscription.sub_version or 0) < header.sub_version:
        remark = "the consumer's subscription not latest"
        raise RemoteProtocolError(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
    return subscription
