"""Proves a log, or says in a table what is wrong with it: one row for each finding.

    kind       severity  what it says                                     found by
    record     damage    bytes that hold no record that can be read       table=damage
    body       damage    a body whose CRC differs, or that cannot inflate  table=damage
    place      damage    a queue lacks offsets, or two records have one   the offsets of each queue
    queue      damage    a consume queue disagrees with the log           a rebuild beside the store
    index      damage    so does the index                                the same
    duplicate  notice    a unique key that several messages of a topic of users have

A producer that sends again after an answer was lost gives the same unique key twice, and consumers
have to bear it: that is no damage. A store that has no queues, a copied log, is not asked for any.

Invariants: the store is only read; the rebuild lies in a folder of its own, and is removed.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from os.path import isdir, join
from typing import TYPE_CHECKING, Final, NamedTuple

from wakelog.audit.index_compare import compare_index
from wakelog.audit.queue_compare import Span, compare_queue
from wakelog.protocol.java import LONG_MAX
from wakelog.spark.jobs.rebuild import rebuild_by
from wakelog.spark.jobs.run import Runner, SparkRunner
from wakelog.spark.jobs.tables import ALL_TOPICS, read_log, source_path
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import RealFileSystem
from wakelog.storage.index.index_service import index_shape
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.paths import StorePaths
from wakelog.storage.recovery.queue_repair import list_queues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUES_PER_TASK: Final = 64
DIFFERENCES_MAX: Final = 1000
"""Of one queue, or of the index: they are gathered on the driver."""

SCHEMA: Final = (
    "severity string, kind string, place string, topic string, queueId int, queueOffset bigint, "
    "physicalOffset bigint, affected bigint, reason string"
)


class Finding(NamedTuple):
    """One row, in the order of SCHEMA."""

    severity: str
    kind: str
    place: str
    topic: str | None
    queue_id: int | None
    queue_offset: int | None
    physical_offset: int | None
    affected_count: int
    reason: str


class _Comparison(NamedTuple):
    """What tasks need to hold a store's files against the rebuilt ones."""

    config: StoreConfig
    rebuilt: str
    log: Span


def audit(spark: SparkSession, config: StoreConfig, *, scratch: str | None = None) -> DataFrame:
    """Return the findings of a store, or of a folder of commit-log files.

    scratch: a folder that every task sees, for the rebuild; None for one of this machine.
    Raises: JobFailed, StoreError.
    """
    path = source_path(config)
    found = compare_derived(SparkRunner(spark), config, scratch)
    messages = read_log(
        spark,
        path,
        "brokerName",
        "topic",
        "queueId",
        "queueOffset",
        "commitLogOffset",
        **ALL_TOPICS,
    )
    table = _damage(read_log(spark, path, table="damage"))
    table = table.unionByName(_places(messages)).unionByName(_duplicates(spark, path))
    return table.unionByName(spark.createDataFrame([tuple(row) for row in found], SCHEMA))


def compare_derived(run: Runner, config: StoreConfig, scratch: str | None) -> list[Finding]:
    """Rebuild what a store's queues and index should be, and return where they differ.

    Raises: JobFailed, StoreError.
    """
    paths = config.paths
    if not isdir(paths.consume_queue_root):
        return []
    folder = tempfile.mkdtemp(prefix="wakelog-audit-", dir=scratch)
    try:
        rebuilt = join(folder, "rebuilt")
        report = rebuild_by(run, config, rebuilt, now_ms=time.time_ns() // 1_000_000)
        job = _Comparison(config, rebuilt, Span(report.begin, report.end))
        fs = RealFileSystem()
        queues = sorted({*list_queues(fs, paths), *list_queues(fs, StorePaths(rebuilt))})
        tasks: list[tuple[QueueKey, ...]] = [
            tuple(queues[at : at + QUEUES_PER_TASK])
            for at in range(0, len(queues), QUEUES_PER_TASK)
        ]
        # No queue stands for the index.
        wanted = [*tasks, ()] if config.message_index_enable else tasks
        return [finding for part in run(partial(_compare, job), wanted) for finding in part]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compare(job: _Comparison, queues: Sequence[QueueKey]) -> list[Finding]:
    if not queues:
        return list(_first(_index_findings(job)))
    return [finding for key in queues for finding in _first(_queue_findings(job, key))]


def _queue_findings(job: _Comparison, key: QueueKey) -> Iterator[Finding]:
    topic, queue_id = key
    paths, rebuilt = job.config.paths, StorePaths(job.rebuilt)
    found, expected = paths.consume_queue(*key), rebuilt.consume_queue(*key)
    file_bytes = job.config.consume_queue_bytes
    for result in compare_queue(RealFileSystem(), found, expected, file_bytes, job.log):
        if not isinstance(result, int):
            yield Finding(
                "damage",
                "queue",
                found,
                topic,
                queue_id,
                result.queue_offset,
                result.physical_offset,
                result.affected_count,
                result.reason,
            )


def _index_findings(job: _Comparison) -> Iterator[Finding]:
    found = job.config.paths.index_directory
    expected = StorePaths(job.rebuilt).index_directory
    shape = index_shape(job.config)
    for result in compare_index(RealFileSystem(), found, expected, shape, job.log):
        if not isinstance(result, int):
            name, count, physical_offset, reason = result
            place = join(found, name) if name else found
            yield Finding(
                "damage", "index", place, None, None, None, physical_offset, count, reason
            )


def _first(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the first of them, and one that stands for the rest."""
    rest, last = 0, None
    for number, finding in enumerate(findings):
        if number < DIFFERENCES_MAX:
            yield finding
        else:
            rest, last = rest + finding.affected_count, finding
    if last is not None:
        yield last._replace(
            queue_offset=None, physical_offset=None, affected_count=rest, reason="more of these"
        )


def _damage(table: DataFrame) -> DataFrame:
    return table.selectExpr(
        "'damage' as severity",
        "if(reason like '%body%', 'body', 'record') as kind",
        "path as place",
        "cast(null as string) as topic",
        "cast(null as int) as queueId",
        "cast(null as bigint) as queueOffset",
        "beginOffset as physicalOffset",
        "endOffset - beginOffset as affected",
        "reason",
    )


def _places(messages: DataFrame) -> DataFrame:
    """Find where a queue's offsets do not go up by one."""
    order = "partition by brokerName, topic, queueId order by queueOffset, commitLogOffset"
    # Offsets are whatever damage has made of them: what has no place in a long is null.
    return (
        messages.selectExpr("*", f"lag(queueOffset) over ({order}) as before")
        .selectExpr(
            "*",
            "try_add(before, 1) as wanted",
            "coalesce(try_subtract(queueOffset, wanted), "
            f"if(queueOffset = before, -1, {LONG_MAX})) as distance",
        )
        .where("before is not null and distance != 0")
        .selectExpr(
            "'damage' as severity",
            "'place' as kind",
            "brokerName as place",
            "topic",
            "queueId",
            "if(distance < 0, queueOffset, wanted) as queueOffset",
            "commitLogOffset as physicalOffset",
            "if(distance < 0, 1, distance) as affected",
            "if(distance < 0, 'another record has this queue offset', "
            "'no record has these queue offsets') as reason",
        )
    )


def _duplicates(spark: SparkSession, path: str) -> DataFrame:
    """Find unique keys that several messages of one topic have; retry topics repeat them."""
    messages = read_log(spark, path, "brokerName", "topic", "commitLogOffset", "msgId")
    return (
        messages.groupBy("topic", "msgId")
        .agg({"commitLogOffset": "min", "*": "count", "brokerName": "min"})
        .where("`count(1)` > 1")
        .selectExpr(
            "'notice' as severity",
            "'duplicate' as kind",
            "`min(brokerName)` as place",
            "topic",
            "cast(null as int) as queueId",
            "cast(null as bigint) as queueOffset",
            "`min(commitLogOffset)` as physicalOffset",
            "`count(1)` as affected",
            "concat('unique key ', msgId) as reason",
        )
    )
