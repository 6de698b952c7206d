"""Reads the columns that a job needs of a log, through the source."""

from __future__ import annotations

from os.path import join
from typing import TYPE_CHECKING, Final

from wakelog.spark.errors import JobFailed
from wakelog.storage.config import StoreConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALL_TOPICS: Final = {"includeSystemTopics": "true", "includeRetry": "true", "includeDlq": "true"}

_TIMES: Final = ("bornTimestamp", "storeTimestamp")
_FIRST_TIME: Final = "timestamp'1970-01-01 00:00:00 UTC'"
_LAST_TIME: Final = "timestamp'2199-12-31 00:00:00 UTC'"


def read_log(spark: SparkSession, path: str, *columns: str, **options: str) -> DataFrame:
    """Return a table with these columns. Spark does not push the used columns to a source.

    path: empty if options name the brokers.
    """
    reader = spark.read.format("rocketmq").options(**options)
    if columns:
        reader = reader.option("columns", ",".join(columns))
    return reader.load(path or None)


def read_times(spark: SparkSession, path: str, *columns: str, **options: str) -> DataFrame:
    """Return a table as `read_log` does, with times that fit into intervals.

    No CRC covers a record's times. An impossible one is replaced by the nearest possible one:
    neither Spark's windows nor Python can handle the year 290,000.
    """
    table = read_log(spark, path, *columns, **options)
    bounded = {
        name: f"least(greatest({name}, {_FIRST_TIME}), {_LAST_TIME}) as {name}" for name in _TIMES
    }
    return table.selectExpr(*(bounded.get(name, name) for name in columns))


def source_path(config: StoreConfig) -> str:
    """Return the source's path of a configured log. Raises: JobFailed."""
    folders = config.paths.commit_log_directories
    if len(folders) > 1:
        raise JobFailed(f"the log is spread over {len(folders)} folders", "copy its files into one")
    return config.paths.root if folders[0] == join(config.paths.root, "commitlog") else folders[0]
