"""What operators ask of a log: who is behind, how late, which keys, what was given up.

Each is a table, made of what the source reads; a column that is not needed is not read. Times are
of the brokers that stored the messages, and intervals begin at whole multiples of their length.

Invariants: only reads.

Source: org.apache.rocketmq.broker.processor.AbstractSendMessageProcessor#consumerSendMsgBack,
org.apache.rocketmq.common.subscription.SubscriptionGroupConfig (4.9.3) for when a message becomes a
dead letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from wakelog.broker.consumer_offsets import ConsumerOffsets
from wakelog.broker.names import DLQ_PREFIX, RETRY_PREFIX
from wakelog.spark.columns import nearest
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.tables import ALL_TOPICS, read_log, read_times
from wakelog.spark.stores import StoreLog, find_stores
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import RealFileSystem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RETRIES_MAX: Final = 16
"""retryMaxTimes of a subscription group, unless it was set."""
EVERY: Final = "1 hour"


class Committed(NamedTuple):
    """How far a group has consumed a queue."""

    group: str
    broker: str
    topic: str
    queue_id: int
    queue_offset: int


def lag(
    spark: SparkSession,
    store_path: str,
    *,
    group: str = "",
    every: str = EVERY,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return what groups have not consumed: by group, topic and the interval of its storing.

    group: this one alone. A queue of which a group has committed nothing is none of its.
    options: of the source. Raises: JobFailed.
    """
    committed = spark.createDataFrame(
        _committed_by(group, store_path),
        "`group` string, brokerName string, topic string, queueId int, committed bigint",
    )
    names = ("brokerName", "topic", "queueId", "queueOffset", "storeTimestamp", "storeSize")
    messages = read_times(spark, store_path, *names, **{**ALL_TOPICS, **(options or {})})
    return (
        messages.join(committed, ["brokerName", "topic", "queueId"])
        .where("queueOffset >= committed")
        .groupBy("group", "topic", _interval(messages, every))
        .agg({"*": "count", "storeSize": "sum", "storeTimestamp": "min"})
        .selectExpr(
            "`group`",
            "topic",
            "interval.start as time",
            "`count(1)` as messages",
            "`sum(storeSize)` as bytes",
            "`min(storeTimestamp)` as oldest",
        )
        .orderBy("group", "topic", "time")
    )


def latency(
    spark: SparkSession,
    store_path: str,
    *,
    group: str = "",
    every: str = EVERY,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return how long messages took from their producer to the log: by topic and interval.

    A message of a group's retry topic keeps the time at which it was first sent: there it is how
    late the group gets it once more. Clocks of producers count as they are.
    group: of the topics that it consumes alone, its retry topic included.
    options: of the source. Raises: JobFailed.
    """
    from pyspark.sql.functions import col, expr

    names = ("topic", "bornTimestamp", "storeTimestamp")
    given = {"includeRetry": "true", "includeDlq": "true", **(options or {})}
    messages = read_times(spark, store_path, *names, **given).selectExpr(
        "*", "unix_millis(storeTimestamp) - unix_millis(bornTimestamp) as ms"
    )
    if group:
        consumed = {row.topic for row in _committed_by(group, store_path)}
        messages = messages.where(col("topic").isin(*consumed, RETRY_PREFIX + group))
    return (
        messages.groupBy("topic", _interval(messages, every))
        .agg(
            expr("count(1) as messages"),
            expr("percentile_approx(ms, 0.5) as p50Ms"),
            expr("percentile_approx(ms, 0.99) as p99Ms"),
            expr("max(ms) as maxMs"),
        )
        .selectExpr("topic", "interval.start as time", "messages", "p50Ms", "p99Ms", "maxMs")
        .orderBy("topic", "time")
    )


def hotkeys(
    spark: SparkSession, store_path: str, *, options: Mapping[str, str] | None = None
) -> DataFrame:
    """Return the keys of messages, those of most messages first, with their share of the topic.

    options: of the source.
    """
    messages = read_log(spark, store_path, "topic", "keys", "storeSize", **(options or {}))
    words = messages.selectExpr("topic", "explode(split(keys, ' ')) as key", "storeSize")
    totals = messages.groupBy("topic").count().withColumnRenamed("count", "total")
    return (
        words.where("key != ''")
        .groupBy("topic", "key")
        .agg({"*": "count", "storeSize": "sum"})
        .join(totals, "topic")
        .selectExpr(
            "topic",
            "key",
            "`count(1)` as messages",
            "`sum(storeSize)` as bytes",
            "`count(1)` / total as share",
        )
        .orderBy("messages", "topic", "key", ascending=[False, True, True])
    )


def deadletters(
    spark: SparkSession,
    store_path: str,
    *,
    group: str = "",
    retries_max: int = RETRIES_MAX,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return what groups gave up: by group, topic of origin and reason.

    group: this one alone. options: of the source.
    retries_max: of the groups; with fewer a consumer has set a lower limit, or sent a message to
        the dead letters itself.
    """
    names = ("topic", "properties", "reconsumeTimes", "storeTimestamp", "msgId")
    which = re.escape(group) if group else ".*"
    pattern = {"subscribePattern": DLQ_PREFIX + which, "includeDlq": "true", **(options or {})}
    from pyspark.sql.functions import expr

    return (
        read_times(spark, store_path, *names, **pattern)
        .selectExpr(
            f"substring(topic, {len(DLQ_PREFIX) + 1}) as `group`",
            "coalesce(properties['RETRY_TOPIC'], '') as origin",
            f"if(reconsumeTimes >= {retries_max}, 'retries used up', "
            "'given up by its consumer') as reason",
            "reconsumeTimes",
            "storeTimestamp",
            "msgId",
        )
        .groupBy("group", "origin", "reason")
        .agg(
            expr("count(1) as messages"),
            expr("max(reconsumeTimes) as retries"),
            expr("min(storeTimestamp) as oldest"),
            expr("max(storeTimestamp) as newest"),
            expr("min(msgId) as example"),
        )
        .orderBy("group", "origin", "reason")
    )


def _interval(messages: DataFrame, every: str) -> Column:
    from pyspark.errors import AnalysisException
    from pyspark.sql.functions import window

    interval = window("storeTimestamp", every).alias("interval")
    try:
        messages.select(interval).schema  # noqa: B018 - says now what a query would say later
    except AnalysisException as error:
        raise JobFailed(f"{every!r} is no interval", "give one such as '10 minutes'") from error
    return interval


def committed_offsets(store_path: str) -> list[Committed]:
    """Return what groups have committed in the stores that a path names. Raises: JobFailed."""
    stores = find_stores(RealFileSystem(), store_path)
    return [row for store in stores for row in _committed(store)]


def _committed_by(group: str, store_path: str) -> list[Committed]:
    """Return what a group, or with "" any, has committed. Raises: JobFailed if it is nothing."""
    found = committed_offsets(store_path)
    groups = {row.group for row in found}
    if not found or group not in ("", *groups):
        whose = f"no group {group!r}" if group else "no group"
        raise JobFailed(
            f"{whose} has committed an offset in {store_path}{nearest(group, groups)}",
            "give a store with config/consumerOffset.json, and a group that consumes",
        )
    return [row for row in found if group in ("", row.group)]


def _committed(store: StoreLog) -> Iterator[Committed]:
    if store.paths is None:
        return
    offsets = ConsumerOffsets()
    try:
        ConfigFiles(RealFileSystem(), store.paths).load("consumerOffset.json", offsets.load)
    except StoreError as error:
        raise JobFailed(str(error), "repair the file, or leave the store out") from error
    for group, topic, queues in offsets.committed():
        for queue_id, offset in queues.items():
            if offset >= 0:
                yield Committed(group, store.broker, topic, queue_id, offset)
