"""Subscriptions by tag: an expression to a set of tags codes, and the test of one entry.

The broker compares hashes only; the client compares the tags themselves again.

Source: org.apache.rocketmq.common.filter.FilterAPI,
org.apache.rocketmq.broker.filter.ExpressionMessageFilter.isMatchedByConsumeQueue (4.9.3)
"""

from wakelog.protocol.bodies import EXPRESSION_TAG, SUBSCRIBE_ALL, SubscriptionData
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.java import INT_MAX, string_hash

_TAG_SEPARATOR = "||"
_JAVA_TRIMMED = "".join(map(chr, range(0x21)))  # String.trim: everything up to the space


def is_tag_type(expression_type: str | None) -> bool:
    """Return whether an expression of this type lists tags; so does one without a type."""
    return not expression_type or expression_type == EXPRESSION_TAG


def build_subscription(
    topic: str,
    expression: str | None,
    expression_type: str | None = None,
    *,
    sub_version: int = 0,
) -> SubscriptionData:
    """Make the subscription that `expression` stands for.

    Raises:
        RemoteProtocolError: SUBSCRIPTION_PARSE_FAILED, if the expression has no tag and no filter.
    """
    if not is_tag_type(expression_type):
        if not expression:
            raise _unparsable(f"Expression can't be null! {expression_type}")
        assert expression_type is not None
        return SubscriptionData(
            topic=topic,
            sub_string=expression,
            sub_version=sub_version,
            expression_type=expression_type,
        )
    subscription = SubscriptionData(topic=topic, sub_string=SUBSCRIBE_ALL, sub_version=sub_version)
    if not expression or expression == SUBSCRIBE_ALL:
        return subscription
    words = expression.split(_TAG_SEPARATOR)
    # Java's split drops empty words at the end, so separators alone leave nothing.
    if not any(words):
        raise _unparsable("subString split error")
    subscription.sub_string = expression
    subscription.tags_set = {tag for word in words if (tag := word.strip(_JAVA_TRIMMED))}
    subscription.code_set = {string_hash(tag) for tag in subscription.tags_set}
    return subscription


def matches(subscription: SubscriptionData | None, tags_code: int | None) -> bool:
    """Return whether the message of a consume queue entry may match a subscription.

    Args:
        subscription: None matches everything, as does a filter that is not by tag.
        tags_code: of the entry; None, if it is unknown, matches.
    """
    if subscription is None or tags_code is None or subscription.class_filter_mode:
        return True
    if not is_tag_type(subscription.expression_type) or subscription.sub_string == SUBSCRIBE_ALL:
        return True
    return _int_value(tags_code) in subscription.code_set


def _int_value(value: int) -> int:
    # Long.intValue: an entry's code has 64 bits, a subscription's hashes 32.
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low > INT_MAX else low


def _unparsable(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, reason)
