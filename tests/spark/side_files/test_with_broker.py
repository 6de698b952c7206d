"""A broker that writes Parquet files, killed on the way; plain Spark reads them, and a real broker
takes the store over.
"""

import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tests.compat.clusters import Cluster, Wakelog, real_cluster
from tests.spark.remote.conftest import numbered, send
from tests.spark.side_files.stores import places, side_config
from wakelog.storage.file_system import FileSystem

SETTINGS = {"parquetDispatcher": "true", "parquetFileBytes": "65536", "parquetFileAgeMs": "100"}
TOPIC = "known"
COUNT = 1000
SEEN_SECONDS_MAX = 60.0
SEEN_POLL_SECONDS = 0.05


def rows_count(store: Path) -> int:
    """Return how many messages are in files, each of them once; 0 if a file was just replaced."""
    try:
        found = places(FileSystem(), side_config(store_path_root=str(store)))
    except FileNotFoundError:  # listed, then merged with another one by the broker that runs
        return 0
    assert set(found.values()) <= {1}
    return len(found)


def wait_for_rows(store: Path, count: int) -> None:
    end = time.monotonic() + SEEN_SECONDS_MAX
    while (found := rows_count(store)) < count:
        assert time.monotonic() < end, f"{found} rows of {count} in files"
        time.sleep(SEEN_POLL_SECONDS)


def by_place(table: DataFrame) -> list[Row]:
    return table.orderBy("commitLogOffset").collect()


@pytest.mark.spark
@pytest.mark.java
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.long
def test_files_have_the_rows_of_the_source_over_a_kill(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "store"
    for life in range(2):
        wakelog = Wakelog(
            tmp_path / f"life-{life}",
            store=store,
            settings=SETTINGS,
            flags=["--local"],
            temporary=tmp_path,
        )
        with wakelog.process:
            wakelog.wait_ready()
            send(wakelog.cluster, numbered(TOPIC, range(life * COUNT, (life + 1) * COUNT)))
            send(wakelog.cluster, numbered("other", range(10)))
            if life == 0:
                wait_for_rows(store, 1)
                wakelog.kill()
            else:
                wait_for_rows(store, 2 * COUNT + 20)
                wakelog.stop()
    source = spark.read.format("rocketmq").load(str(store))
    files = spark.read.option("recursiveFileLookup", "true").parquet(str(store / "wakelog.parquet"))
    assert files.schema == source.schema
    assert by_place(files) == by_place(source)
    known = spark.read.parquet(str(store / "wakelog.parquet" / TOPIC))
    assert known.count() == source.where(f"topic = '{TOPIC}'").count() == 2 * COUNT
    with real_cluster(tmp_path / "real", store=store) as cluster:
        assert served(spark, cluster) == 2 * COUNT


def served(spark: SparkSession, cluster: Cluster) -> int:
    reader = spark.read.format("rocketmq").option("nameServer", cluster.name_server)
    return reader.option("topic", TOPIC).load().count()
