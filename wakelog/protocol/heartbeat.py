"""The body of a heartbeat, read in steps: a client may have thousands of groups or subscriptions.

msgspec cuts the body into consumers, and those into subscriptions, without reading them; each is
then read alone. What it refuses is read as a whole by the rules of `body_codec`, in steps as well.

Source: org.apache.rocketmq.common.protocol.heartbeat.HeartbeatData.decode (4.9.3).
"""

from typing import Final

import msgspec

from wakelog.protocol.bodies import (
    CONSUME_PASSIVELY,
    FROM_LAST_OFFSET,
    MODEL_CLUSTERING,
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from wakelog.protocol.body_codec import decode_tolerantly
from wakelog.protocol.ext_fields import Int32
from wakelog.protocol.steps import Steps
from wakelog.typed_values import json_decoder

PARTS_PER_STEP: Final = 256
"""Some 0.2 ms for subscriptions without tags."""


class _Cut(msgspec.Struct, rename="camel"):
    """A heartbeat whose consumers are not read yet."""

    client_id: str = msgspec.field(default="", name="clientID")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[msgspec.Raw] = []


class _CutConsumer(msgspec.Struct, rename="camel"):
    """A consumer whose subscriptions are not read yet."""

    group_name: str = ""
    consume_type: str | Int32 = CONSUME_PASSIVELY
    message_model: str | Int32 = MODEL_CLUSTERING
    consume_from_where: str | Int32 = FROM_LAST_OFFSET
    subscription_data_set: list[msgspec.Raw] = []
    unit_mode: bool = False


_cut = json_decoder(_Cut, strict=False).decode
_cut_consumer = json_decoder(_CutConsumer, strict=False).decode
_subscription = json_decoder(SubscriptionData, strict=False).decode


def decode_heartbeat(data: bytes) -> Steps[HeartbeatData]:
    """Read a heartbeat. Raises: RemoteProtocolError as `decode_body`."""
    try:
        return (yield from _decode_cut(data))
    except (ValueError, RecursionError):
        pass  # not within the handler: the error of the slow reader has no other behind it
    return (yield from decode_tolerantly(HeartbeatData, data))


def _decode_cut(data: bytes) -> Steps[HeartbeatData]:
    cut = _cut(data)
    consumers = []
    parts_count = 0
    for raw in cut.consumer_data_set:
        consumer = _cut_consumer(raw)
        subscriptions = []
        parts_count += 1
        for text in consumer.subscription_data_set:
            subscriptions.append(_subscription(text))
            parts_count += 1
            if parts_count >= PARTS_PER_STEP:
                yield
                parts_count = 0
        consumers.append(
            ConsumerData(
                consumer.group_name,
                consumer.consume_type,
                consumer.message_model,
                consumer.consume_from_where,
                subscriptions,
                consumer.unit_mode,
            )
        )
        if parts_count >= PARTS_PER_STEP:
            yield
            parts_count = 0
    return HeartbeatData(cut.client_id, cut.producer_data_set, consumers)
