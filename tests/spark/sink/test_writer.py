"""Tables and streams written by Spark to a wakelog broker and to the real one, and read back.

What arrived is read from the broker's files, by the source.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from tests.compat.clusters import Cluster
from tests.compat.processes import free_port
from tests.fakes.records import LogBytes
from tests.spark.logs import write_segments
from wakelog.client.errors import NotAcknowledged
from wakelog.spark.errors import OptionError
from wakelog.spark.sink.unique_keys import UniqueKeys, WrittenPart
from wakelog.spark.sink.writer import BatchWriter, StreamWriter, Written, make_target
from wakelog.spark.source import RocketMQSource

pytestmark = pytest.mark.daily("in turn")

SCHEMA = StructType([StructField("body", StringType()), StructField("queueId", IntegerType())])
OPTIONS = {"nameServer": "127.0.0.1:9876", "topic": "T"}


def test_writers_are_made_for_appends_only() -> None:
    source = RocketMQSource(OPTIONS)
    assert isinstance(source.writer(SCHEMA, False), BatchWriter)
    assert isinstance(source.streamWriter(SCHEMA, False), StreamWriter)
    with pytest.raises(OptionError, match="can only be appended to"):
        source.writer(SCHEMA, True)
    with pytest.raises(OptionError, match="did you mean 'topic'"):
        RocketMQSource({**OPTIONS, "topik": "T"}).streamWriter(SCHEMA, False)


def test_a_task_that_does_not_say_that_it_wrote_is_an_error() -> None:
    target = make_target(OPTIONS, SCHEMA, overwrite=False)
    for messages in ([Written(1), None], [None, None]):
        with pytest.raises(NotAcknowledged, match="tasks did not report their rows"):
            BatchWriter(target).commit(messages)
        with pytest.raises(NotAcknowledged, match="tasks did not report their rows"):
            StreamWriter(target).commit(messages, 3)
    BatchWriter(target).commit([Written(1)])


@pytest.fixture(params=["local", "real"])
def wire(request: pytest.FixtureRequest) -> Cluster:
    """Return a running cluster: of wakelog, and of the real brokers."""
    cluster: Cluster = request.getfixturevalue(request.param)
    return cluster


def stored(spark: SparkSession, cluster: Cluster, topic: str) -> list[Row]:
    """Return a topic's rows, of the log's files alone: what was acknowledged is in them.

    Of the store as a whole the source reads what is durable, and asynchronous flush comes later.
    """
    table = spark.read.format("rocketmq").option("topic", topic)
    rows = table.load(str(cluster.store / "commitlog"))
    return rows.orderBy("queueId", "queueOffset").collect()


@pytest.mark.spark
@pytest.mark.java
@pytest.mark.slow
def test_a_table_arrives_as_it_is_and_once_more_with_the_same_keys(
    spark: SparkSession, wire: Cluster
) -> None:
    table = spark.range(0, 3000, numPartitions=3).selectExpr(
        "concat('body ', id) AS value",
        "IF(id % 2 = 0, 'even', 'odd') AS tags",
        "concat('k', id) AS key",
        "map('number', CAST(id AS STRING)) AS properties",
    )
    writer = table.write.format("rocketmq").mode("append").option("topic", "whole_table")
    writer = writer.option("nameServer", wire.name_server).option("queryId", "nightly")
    keys = [
        UniqueKeys(WrittenPart("nightly", 0, partition)).key(row)
        for partition in range(3)
        for row in range(1000)
    ]
    for times in (1, 2):
        writer.save()
        rows = stored(spark, wire, "whole_table")
        assert sorted(row.msgId for row in rows) == sorted(keys * times)
    by_key = {row.msgId: row for row in rows}
    for number, key in enumerate(keys):
        row = by_key[key]
        assert (row.body, row.tags, row["keys"], row.properties["number"]) == (
            b"body %d" % number,
            "odd" if number % 2 else "even",
            f"k{number}",
            str(number),
        )
    # A partition of a thousand rows is one request, and each partition begins with another queue.
    assert {row.queueId for row in rows} == {0, 1, 2}


@pytest.mark.spark
@pytest.mark.java
@pytest.mark.slow
def test_a_batch_that_a_restarted_stream_repeats_has_the_same_keys(
    spark: SparkSession, wire: Cluster, tmp_path: Path
) -> None:
    log = LogBytes(segment_bytes=1 << 16)

    def run(count: int) -> list[Row]:
        for number in range(count):
            log.add(body=b"%d" % number, topic="in")
        write_segments(tmp_path / "log", log)
        query = (
            spark.readStream.format("rocketmq")
            .option("columns", "body,queueId")
            .option("startingOffsets", "earliest")
            .load(str(tmp_path / "log"))
            .writeStream.format("rocketmq")
            .option("nameServer", wire.name_server)
            .option("topic", "stream_out")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return stored(spark, wire, "stream_out")

    first = run(40)
    assert len({row.msgId for row in first}) == len(first) == 40
    second = run(30)
    assert len({row.msgId for row in second}) == len(second) == 70
    # As if the driver had died between the last task and its note in the checkpoint.
    commits = tmp_path / "checkpoint" / "commits"
    for path in (commits / "1", commits / ".1.crc"):
        path.unlink()
    third = run(0)
    assert len(third) == 100
    assert {(row.msgId, row.body) for row in third} == {(row.msgId, row.body) for row in second}
    # The rows named queue 0, and a queue keeps its order.
    assert [row.body for row in first] == [b"%d" % number for number in range(40)]


@pytest.mark.spark
@pytest.mark.slow
def test_a_write_without_a_broker_fails(spark: SparkSession) -> None:
    def write(name_server: str, **options: str) -> None:
        # In a thread that is new to Spark the format is found once the session is the thread's.
        table = spark.createDataFrame([("x",)], "body string")
        writer = table.write.format("rocketmq").mode("append").options(topic="T", **options)
        writer.option("nameServer", name_server).save()

    with pytest.raises(PySparkException, match="did you mean 'batchBytes'"):
        write("127.0.0.1:1", batchByte="1")
    with ThreadPoolExecutor(1) as other:
        failed = other.submit(write, f"127.0.0.1:{free_port()}").exception()
    assert isinstance(failed, PySparkException)
    assert "no name server gave the route of topic T" in str(failed)
