"""Two logs held against one another, message by message: what one has and the other lacks.

A message is the same if it stands at the same place of the same queue; where in the logs the
records lie, and when they were stored, may differ, so that a mirror can be compared. With one
store on the first side the names of brokers do not count.

The second side may be live brokers, wakelog's or 4.9.3's: their messages are pulled over the wire.

Invariants: only reads; each message of either side is in at most one row's count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.tables import read_log
from wakelog.spark.options import options_of
from wakelog.spark.stores import find_stores
from wakelog.storage.file_system import RealFileSystem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = ("bodyCRC", "msgId", "offsetMsgId", "tags", "keys", "flag")
SAME: Final = "struct(bodyCRC, if(msgId = offsetMsgId, '', msgId), tags, keys, flag)"
"""What a message of one place has to have alike; an id that is but its place in the log is none."""


def compare(
    spark: SparkSession,
    left_path: str,
    right_path: str = "",
    *,
    name_server: str = "",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return where two logs differ: a row for each queue and kind of difference.

    right_path: or else `name_server`, by which the live brokers on the second side are found.
    options: of the source, for both sides: `topic`, `startingTimestamp`, ...; those that go with
        one way of reading alone, as `accessKey`, for the side that is read so.
    Raises: SourceError, JobFailed.
    """
    if bool(right_path) == bool(name_server):
        raise JobFailed("a log is compared with one other", "give a path or a name server")
    paths = [path for path in (left_path, right_path) if path]
    place = ["topic", "queueId", "queueOffset"]
    if any(len(find_stores(RealFileSystem(), path)) > 1 for path in paths):
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
            *queue,
            "difference",
            "`count(1)` as messages",
            "`min(queueOffset)` as firstQueueOffset",
        )
        .orderBy(*queue, "difference")
    )
