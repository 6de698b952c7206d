"""Compares two logs message by message: which messages one has and the other lacks.

Messages correspond if they have the same queue and queue offset. Their places in the log and their
store times may differ, so that a mirror can be compared. With one store on each side the names of
brokers are ignored.

The second side may be live brokers, of wakelog or 4.9.3: their messages are pulled over the wire.

Invariants: the logs are only read; each message is counted in at most one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.tables import read_log
from wakelog.spark.options import options_of
from wakelog.spark.stores import find_stores
from wakelog.storage.file_system import FileSystem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = ("bodyCRC", "msgId", "offsetMsgId", "tags", "keys", "flag")
SAME: Final = "struct(bodyCRC, if(msgId = offsetMsgId, '', msgId), tags, keys, flag)"
"""What corresponding messages must have in common. An id that only states a place is ignored."""


def compare(
    spark: SparkSession,
    left_path: str,
    right_path: str = "",
    *,
    name_server: str = "",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the differences of two logs, a row for each queue and kind.

    right_path: the second side; or `name_server` of its live brokers.
    options: of the source, such as `topic`. An option of only one way of reading, such as
        `accessKey`, applies to the side that is read so.
    Raises: SourceError, JobFailed.
    """
    if bool(right_path) == bool(name_server):
        raise JobFailed("a log is compared with one other", "give a path or a name server")
    paths = [path for path in (left_path, right_path) if path]
    place = ["topic", "queueId", "queueOffset"]
    if any(len(find_stores(FileSystem(), path)) > 1 for path in paths):
        place.insert(0, "brokerName")
    queue = place[:-1]
    first = options_of(options or {}, remote=False)
    second = options_of(options or {}, remote=bool(name_server))
    if name_server:
        second["nameServer"] = name_server
    tables = [
        read_log(spark, path, *place, *COLUMNS, **given).selectExpr(*place, f"{SAME} as {side}")
        for path, given, side in ((left_path, first, "first"), (right_path, second, "second"))
    ]
    return (
        tables[0]
        .join(tables[1], place, "full")
        .where("not (first <=> second)")
        .selectExpr(
            *place,
            "case when second is null then 'only in the first' "
            "when first is null then 'only in the second' else 'differs' end as difference",
        )
        .groupBy(*queue, "difference")
        .agg({"*": "count", "queueOffset": "min"})
        .selectExpr(
            *queue, "difference", "`count(1)` as messages", "`min(queueOffset)` as firstQueueOffset"
        )
        .orderBy(*queue, "difference")
    )
