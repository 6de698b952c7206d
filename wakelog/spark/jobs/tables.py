"""What jobs read of a log through the source: chosen columns, of users' topics or of all."""

from __future__ import annotations

from os.path import join
from typing import TYPE_CHECKING, Final

from wakelog.spark.errors import JobFailed
from wakelog.storage.config import StoreConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALL_TOPICS: Final = {"includeSystemTopics": "true", "includeRetry": "true", "includeDlq": "true"}


def read_log(spark: SparkSession, path: str, *columns: str, **options: str) -> DataFrame:
    """Return a table with these columns; Spark does not tell a source which ones are used.

    path: empty where options say of which brokers.
    """
    reader = spark.read.format("rocketmq").options(**options)
    if columns:
        reader = reader.option("columns", ",".join(columns))
    return reader.load(path or None)


def source_path(config: StoreConfig) -> str:
    """Return what the source takes for a configured log. Raises: JobFailed."""
    folders = config.paths.commit_log_directories
    if len(folders) > 1:
        raise JobFailed(f"the log is spread over {len(folders)} folders", "copy its files into one")
    return config.paths.root if folders[0] == join(config.paths.root, "commitlog") else folders[0]
