"""The traffic in a log as tables: lag, latency, hot keys, dead letters.

Each reads only the columns that it needs. Intervals are of the store time, by the clocks of the
brokers, and begin at whole multiples of their length.

Invariants: only reads.

Source: org.apache.rocketmq.broker.processor.AbstractSendMessageProcessor#consumerSendMsgBack,
org.apache.rocketmq.common.subscription.SubscriptionGroupConfig (4.9.3) for when a message becomes a
dead letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from os.path import isdir, join
from typing import TYPE_CHECKING, Final, NamedTuple

from wakelog.broker.consumer_offsets import ConsumerOffsets
from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from wakelog.spark.columns import nearest
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.tables import ALL_TOPICS, read_log, read_times
from wakelog.spark.options import read_options
from wakelog.spark.stores import StoreLog, find_stores
from wakelog.storage.durability.config_files import ConfigFiles
from wakelog.storage.errors import StoreError
from wakelog.storage.file_system import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RETRIES_MAX: Final = 16
"""The default of a subscription group's retryMaxTimes."""
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
    """Return what groups have not consumed, by group, topic and interval of the store time.

    A topic that a group has consumed wholly has one row, with 0 messages and no time. A queue in
    which a group has committed nothing is not counted.
    group: this one only. options: of the source. Raises: JobFailed.
    """
    options = {**ALL_TOPICS, **(options or {})}
    committed = _committed_by(group, store_path, options)
    table = spark.createDataFrame(
        committed, "`group` string, brokerName string, topic string, queueId int, committed bigint"
    )
    topics = spark.createDataFrame(
        sorted({(each.group, each.topic) for each in committed}), "`group` string, topic string"
    )
    names = ("brokerName", "topic", "queueId", "queueOffset", "storeTimestamp", "storeSize")
    messages = read_times(spark, store_path, *names, **options)
    waiting = (
        messages.join(table, ["brokerName", "topic", "queueId"])
        .where("queueOffset >= committed")
        .groupBy("group", "topic", _interval(messages, every))
        .agg({"*": "count", "storeSize": "sum", "storeTimestamp": "min"})
    )
    return (
        topics.join(waiting, ["group", "topic"], "left")
        .selectExpr(
            "`group`",
            "topic",
            "interval.start as time",
            "coalesce(`count(1)`, 0) as messages",
            "coalesce(`sum(storeSize)`, 0) as bytes",
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
    """Return the time from producer to log, by topic and interval, see `read_latencies`.

    group: only the topics that it consumes, its retry topic included.
    options: of the source. Raises: JobFailed.
    """
    from pyspark.sql.functions import col, expr

    given = {"includeRetry": "true", "includeDlq": "true", **(options or {})}
    messages = read_latencies(spark, store_path, "topic", "storeTimestamp", **given)
    if group:
        consumed = {row.topic for row in _committed_by(group, store_path, ALL_TOPICS)}
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


def read_latencies(spark: SparkSession, path: str, *columns: str, **options: str) -> DataFrame:
    """Return a table with these columns and `ms`, from the producer's clock to the broker's.

    `ms` is null for a delayed message, whose delay is intended. A message of a group's retry topic
    keeps the time of its first sending: there `ms` is how late the group gets it again.
    """
    names = [*columns, *({"topic", "bornTimestamp", "storeTimestamp"} - {*columns})]
    time = "unix_millis(storeTimestamp) - unix_millis(bornTimestamp)"
    if _has_delays(path):
        names.append("properties")
        is_delayed = f"properties['DELAY'] > 0 and not startswith(topic, '{RETRY_PREFIX}')"
        time = f"if({is_delayed}, null, {time})"
    return read_times(spark, path, *names, **options).selectExpr(*columns, f"{time} as ms")


def _has_delays(store_path: str) -> bool:
    """Return whether a store may hold delayed messages: to read properties takes much longer."""
    stores = find_stores(FileSystem(), store_path)
    roots = [store.paths.consume_queue_root if store.paths else "" for store in stores]
    return any(not isdir(root) or isdir(join(root, SCHEDULE_TOPIC)) for root in roots)


def hotkeys(
    spark: SparkSession, store_path: str, *, options: Mapping[str, str] | None = None
) -> DataFrame:
    """Return the keys of messages, the most frequent first, with their share of the topic.

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
    """Return the dead letters of groups, by group, topic of origin and reason.

    group: this one only. options: of the source.
    retries_max: of the groups. A message with fewer retries had a consumer with a lower limit, or
        one that gave it up itself.
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
        messages.select(interval).schema  # noqa: B018 - raises now what a query would raise later
    except AnalysisException as error:
        raise JobFailed(f"{every!r} is no interval", "give one such as '10 minutes'") from error
    return interval


def committed_offsets(store_path: str, options: Mapping[str, str]) -> list[Committed]:
    """Return the committed offsets of the topics that these options read. Raises: JobFailed."""
    topics = read_options({**ALL_TOPICS, **options, "path": store_path}).topics
    stores = find_stores(FileSystem(), store_path)
    found = [row for store in stores for row in _committed(store)]
    return [row for row in found if topics.accept(row.broker, row.topic, row.queue_id)]


def _committed_by(group: str, store_path: str, options: Mapping[str, str]) -> list[Committed]:
    """Return the offsets of a group, or with "" of all. Raises: JobFailed if there are none."""
    found = committed_offsets(store_path, options)
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
        ConfigFiles(FileSystem(), store.paths.config).load("consumerOffset.json", offsets.load)
    except StoreError as error:
        raise JobFailed(str(error), "repair the file, or leave the store out") from error
    for group, topic, queues in offsets.committed():
        for queue_id, offset in queues.items():
            if offset >= 0:
                yield Committed(group, store.broker, topic, queue_id, offset)
