"""Which tags a pull wants: from its own header, or from the group's heartbeat.

A pull with the subscription flag brings its expression. One without it, as every push
consumer's, is served by what the group's last heartbeat said, if that is not older than what
the pull knows of. The Go client sends type TAG and an empty expression without the flag
whatever it subscribes to, so the header's expression counts only with the flag.

Expressions other than tags (SQL92) are refused, as by a 4.9.3 broker without enablePropertyFilter.

Source: org.apache.rocketmq.broker.processor.PullMessageProcessor,
org.apache.rocketmq.broker.filter.ExpressionMessageFilter (4.9.3).
"""

from typing import TypeAlias

from wakelog.broker.names import FAQ_HINT
from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import (
    MODEL_BROADCASTING,
    SUBSCRIBE_ALL,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers import PullMessageRequestHeader
from wakelog.protocol.subscription import build_subscription, is_tag_type
from wakelog.protocol.sys_flag import PULL_SUBSCRIPTION

TagCodes: TypeAlias = frozenset[int] | None
"""The tag hashes that pass; None lets every message pass."""


def find_tag_codes(
    state: BrokerState, header: PullMessageRequestHeader, group: SubscriptionGroupConfig
) -> TagCodes:
    """Return what passes. Raises: RemoteProtocolError with 4.9.3's code if nobody can tell."""
    if header.sys_flag & PULL_SUBSCRIPTION:
        subscription = _from_header(header)
    else:
        subscription = _from_heartbeat(state, header, group)
    if not is_tag_type(subscription.expression_type):
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR,
            "The broker does not support consumer to filter message by "
            f"{subscription.expression_type}",
        )
    if subscription.class_filter_mode or subscription.sub_string == SUBSCRIBE_ALL:
        return None
    return frozenset(subscription.code_set)


def _from_header(header: PullMessageRequestHeader) -> SubscriptionData:
    try:
        return build_subscription(header.topic, header.subscription, header.expression_type)
    except RemoteProtocolError:
        raise RemoteProtocolError(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"
        ) from None


def _from_heartbeat(
    state: BrokerState, header: PullMessageRequestHeader, group: SubscriptionGroupConfig
) -> SubscriptionData:
    online = state.consumers.get(header.consumer_group)
    if online is None:
        raise RemoteProtocolError(
            ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ_HINT}"
        )
    if not group.consume_broadcast_enable and online.message_model == MODEL_BROADCASTING:
        raise RemoteProtocolError(
            ResponseCode.NO_PERMISSION,
            f"the consumer group[{header.consumer_group}] can not consume by broadcast way",
        )
    subscription = online.subscriptions.get(header.topic)
    if subscription is None:
        raise RemoteProtocolError(
            ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist{FAQ_HINT}"
        )
    if subscription.sub_version < header.sub_version:
        raise RemoteProtocolError(
            ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
        )
    return subscription
