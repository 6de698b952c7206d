"""Sends dead letters again: to their topic of origin, or only to the group that gave them up.

The property RETRY_TOPIC of a dead letter names its topic of origin. `origin` sends it as a new
message of that topic, for every group. `retry` sends it to the group's own retry topic, as 4.9.3's
consumer does. RETRY_TOPIC and ORIGIN_MESSAGE_ID stay, so the group's consumers see it under the
topic of origin. Other groups do not see it.

Invariants: every message keeps its unique key; the log is only read, so a second run sends
everything again.

Source: org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl#sendMessageBack,
#resetRetryAndNamespace, org.apache.rocketmq.broker.processor.AbstractSendMessageProcessor (4.9.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.tables import read_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORIGIN: Final = "origin"
RETRY: Final = "retry"
_DELAY: Final = "DELAY"


class ResendReport(NamedTuple):
    """How many dead letters brokers acknowledged, and how many name no topic of origin."""

    sent_count: int
    without_origin_count: int


def resend(
    spark: SparkSession,
    store_path: str,
    name_server: str,
    *,
    group: str = "",
    to: str = ORIGIN,
    options: Mapping[str, str] | None = None,
) -> ResendReport:
    """Send the dead letters of a group, or of all groups, again.

    to: ORIGIN or RETRY. options: of the sink. Raises: JobFailed; what Spark raises of a write.
    """
    if to not in (ORIGIN, RETRY):
        raise JobFailed(f"dead letters cannot be sent to {to!r}", f"give {ORIGIN} or {RETRY}")
    wanted = (
        {"subscribe": DLQ_PREFIX + group}
        if group
        else {"subscribePattern": f"{DLQ_PREFIX}.*", "includeDlq": "true"}
    )
    letters = read_log(spark, store_path, "topic", "body", "properties", "flag", "msgId", **wanted)
    has_origin = "coalesce(properties['RETRY_TOPIC'], '') <> ''"
    topic = (
        "properties['RETRY_TOPIC']"
        if to == ORIGIN
        else f"concat('{RETRY_PREFIX}', substring(topic, {len(DLQ_PREFIX) + 1}))"
    )
    table = letters.where(has_origin).selectExpr(
        f"{topic} AS topic",
        "body",
        # The level of its last retry, which would delay it again.
        f"map_filter(properties, (name, value) -> name <> '{_DELAY}') AS properties",
        "flag",
        "msgId AS uniqueKey",
    )
    without_origin_count = letters.where(f"NOT ({has_origin})").count()
    # Persisted, because the log may grow between count and send.
    table.persist()
    try:
        sent_count = table.count()
        writer = table.write.format("rocketmq").mode("append").options(**(options or {}))
        writer.option("nameServer", name_server).save()
    finally:
        table.unpersist()
    return ResendReport(sent_count, without_origin_count)
