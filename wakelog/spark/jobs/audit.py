"""Proves a log sound, or lists what is wrong with it in a table, one row for each finding.

    kind                      severity         found by
    those of `log verify`     damage, notice   `audit/verify.py`, its scan of the log by tasks
    place                     notice           the offsets of each queue: left out, or used twice
    duplicate                 notice           a unique key of several messages of a user's topic

So a store is sound here exactly if `wakelog log verify` finds it sound. A message for several
queues takes an offset in each of them, which only its own queue shows. A producer that sends again
after a lost response repeats the unique key, and consumers have to handle that. A copied log
without queues is audited without them.

Invariants: the store is only read; the rebuild lies in a temporary folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from os.path import isdir, join
from typing import TYPE_CHECKING, Final

from wakelog.audit.findings import FINDINGS_KEPT_MAX, Finding, Severity
from wakelog.audit.verify import VerifyReport, verify
from wakelog.protocol.java import LONG_MAX
from wakelog.spark.jobs.rebuild import scanned
from wakelog.spark.jobs.run import Runner, run_tasks
from wakelog.spark.jobs.tables import ALL_TOPICS, read_log, source_path
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import DamagedStore
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import commit_log_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = (
    "severity string, kind string, place string, topic string, queueId int, queueOffset bigint, "
    "physicalOffset bigint, affected bigint, reason string"
)


def audit(spark: SparkSession, config: StoreConfig, *, scratch: str | None = None) -> DataFrame:
    """Return the findings of a store, or of a folder of commit-log files.

    scratch: a folder that every task sees, for the rebuild; None for one of this machine.
    Raises: JobFailed, StoreError.
    """
    path = source_path(config)
    found = verify_by(partial(run_tasks, spark), config, scratch)
    names = ("brokerName", "topic", "queueId", "queueOffset", "commitLogOffset")
    messages = read_log(spark, path, *names, **ALL_TOPICS)
    table = _places(messages).unionByName(_duplicates(spark, path))
    return table.unionByName(spark.createDataFrame([_row(each) for each in found], SCHEMA))


def verify_by(run: Runner, config: StoreConfig, scratch: str | None) -> list[Finding]:
    """Verify a store, with tasks that scan its log. Raises: JobFailed, StoreError."""
    files = commit_log_files(FileSystem(), config, read_only=True)
    with suppress(DamagedStore):  # verify lists it
        files.refresh()
    begins = [file.start_offset for file in files.files]
    files.close()
    with (
        tempfile.TemporaryDirectory(prefix="wakelog-audit-", dir=scratch) as folder,
        scanned(run, config, begins, join(folder, "parts"), check_bodies=True) as load,
    ):
        has_queues = isdir(config.paths.consume_queue_root)
        report = verify(config, scratch=scratch, load=load, compares_queues=has_queues)
    return list(_located(config, report))


def _located(config: StoreConfig, report: VerifyReport) -> Iterator[Finding]:
    """Yield the findings with absolute places, and counts of bytes for records and bodies."""
    sizes = {}
    if report.log is not None:
        sizes = {gap.begin: gap.end - gap.begin for gap in report.log.bad_stretches}
        sizes |= {body.physical_offset: body.size_bytes for body in report.log.damaged_bodies}
    findings = report.findings
    for each in findings.kept:
        count = each.affected_count
        if each.kind in ("record", "body") and each.physical_offset is not None:
            count = sizes.get(each.physical_offset, count)
        yield each._replace(place=join(config.paths.root, each.place), affected_count=count)
    if left_out := findings.damages_count + findings.notes_count - len(findings.kept):
        severity = Severity.NOTE if findings.is_sound else Severity.DAMAGE
        reason = f"more findings than the first {FINDINGS_KEPT_MAX}"
        yield Finding(severity, "more", config.paths.root, reason, affected_count=left_out)


def _row(found: Finding) -> tuple[object, ...]:
    return (
        "damage" if found.severity is Severity.DAMAGE else "notice",
        found.kind,
        found.place,
        found.topic,
        found.queue_id,
        found.queue_offset,
        found.physical_offset,
        found.affected_count,
        found.reason,
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
            "'notice' as severity",
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
