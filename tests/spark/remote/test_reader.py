"""Rows over the wire, from a wakelog broker and from the real one: those of the brokers' files."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from tests.compat.clusters import Cluster
from tests.spark.logs import MESSAGES, query_rows, rows_of
from tests.spark.remote.conftest import COUNT, TOPIC, numbered, send
from wakelog.spark.errors import DataLost
from wakelog.spark.options import ReadOptions, read_options
from wakelog.spark.remote.query import PulledTask, plan_query
from wakelog.spark.remote.reader import read_task
from wakelog.spark.remote.stream import RemoteStreamReader

pytestmark = pytest.mark.daily("in turn")

BODY = StructType([StructField("body", BinaryType())])


def place(row: dict[str, Any]) -> tuple[int, int]:
    return row["queueId"], row["queueOffset"]


def planned(cluster: Cluster, **given: str) -> tuple[ReadOptions, list[PulledTask]]:
    options = read_options({"nameServer": cluster.name_server, "topic": TOPIC, **given})
    return options, plan_query(options)


def pulled(cluster: Cluster, **given: str) -> list[dict[str, Any]]:
    options, tasks = planned(cluster, **given)
    batches = (batch for task in tasks for batch in read_task(options, MESSAGES, task))
    rows = [row for batch in batches for row in rows_of(batch)]
    return sorted(rows, key=place)


def of_files(cluster: Cluster, **given: str) -> list[dict[str, Any]]:
    path = f"{cluster.broker_name}={cluster.store / 'commitlog'}"
    options = {"path": path, "topic": TOPIC, **given}
    return sorted(query_rows(MESSAGES, None, **options), key=place)


@pytest.mark.java
@pytest.mark.slow
def test_rows_are_those_of_the_brokers_files(wire: Cluster) -> None:
    expected = of_files(wire)
    assert sorted(int(row["body"]) for row in expected) == list(range(COUNT))
    assert pulled(wire) == expected
    middle = str(expected[COUNT // 3]["storeTimestamp"] // 1000)
    cases: list[dict[str, str]] = [
        {"minPartitions": "7", "arrowBatchRows": "100", "pullBatchSize": "5"},
        {"maxRecordsPerPartition": "77"},
        {"subExpression": "t1 || t2"},
        {"sqlFilter": "TAGS = 't1' AND KEYS <> 'k4'"},
        {"startingTimestamp": middle},
        {"endingTimestamp": middle},
        {"startingOffsets": f'{{"{TOPIC}":{{"0":10,"1":-1}}}}'},
        {"endingOffsets": f'{{"{TOPIC}":{{"0":10,"2":0}}}}', "verifyCrc": "true"},
    ]
    for given in cases:
        of_wire = ("minPartitions", "pullBatchSize", "maxRecordsPerPartition")
        rows = of_files(wire, **{k: v for k, v in given.items() if k not in of_wire})
        assert 0 < len(rows) <= COUNT
        assert pulled(wire, **given) == rows, given


@pytest.mark.java
@pytest.mark.slow
def test_a_topic_that_is_not_there_any_more_is_data_lost(wire: Cluster) -> None:
    options, tasks = planned(wire)
    part = tasks[0].range
    gone = tasks[0]._replace(range=part._replace(queue=part.queue._replace(topic="gone")))
    with pytest.raises(DataLost, match="are gone with their topic, which was deleted"):
        list(read_task(options, MESSAGES, gone))
    with pytest.raises(DataLost, match="'gone' is at no broker that the name server knows"):
        planned(wire, topic="gone")
    assert planned(wire, topic="gone", failOnDataLoss="false")[1] == []


@pytest.mark.java
@pytest.mark.slow
def test_micro_batches_have_each_message_once_and_a_group_learns_of_them(wire: Cluster) -> None:
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
    given |= {"topic": "streamed", "commitOffsetsToGroup": "readers", "columns": "body"}
    options = read_options({"nameServer": wire.name_server, **given})
    reader = RemoteStreamReader(options, BODY)

    def rest(start: dict[str, Any]) -> tuple[list[int], dict[str, Any]]:
        found: list[int] = []
        while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
            for partition in reader.partitions(start, end):
                for batch in reader.read(partition):
                    found += map(int, batch.column(0).to_pylist())
            reader.commit(end)
            start = end
        return sorted(found), start

    send(wire, numbered("streamed", range(100)))
    found, offset = rest(reader.initialOffset())
    assert found == list(range(100))
    send(wire, numbered("streamed", range(100, 130)))
    found, _ = rest(offset)
    assert found == list(range(100, 130))
    send(wire, numbered("streamed", range(130, 140)))
    rows = pulled(wire, topic="streamed", startingOffsetsFromGroup="readers")
    assert sorted(int(row["body"]) for row in rows) == list(range(130, 140))


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("wire", ["local"], indirect=True)
def test_spark_reads_tables_and_streams(spark: SparkSession, wire: Cluster, tmp_path: Path) -> None:
    def run(messages: range) -> list[int]:
        send(wire, numbered("sparkling", messages))
        query = (
            spark.readStream.format("rocketmq")
            .options(nameServer=wire.name_server, topic="sparkling", columns="body")
            .options(startingOffsets="earliest", maxOffsetsPerTrigger="40")
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = spark.read.parquet(str(tmp_path / "out")).select("body").collect()
        return sorted(int(row.body) for row in rows)

    assert run(range(60)) == list(range(60))
    assert run(range(60, 80)) == list(range(80))
    table = spark.read.format("rocketmq").option("nameServer", wire.name_server)
    queue = {"assign": f'{{"{TOPIC}":[1]}}', "startingOffsets": f'{{"{TOPIC}":{{"1":5}}}}'}
    assert table.options(**queue).load().count() == COUNT // 4 - 5
    table = spark.read.format("rocketmq").option("nameServer", wire.name_server)
    assert table.options(topic="empty", failOnDataLoss="false").load().collect() == []
