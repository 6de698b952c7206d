"""The table as Spark shows it: found without registration, schemas, filters, errors, damage."""

from base64 import b64decode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tests.fakes.records import STORE_MS, LogBytes, properties
from tests.golden_stores import open_golden, read_manifest
from tests.spark.logs import write_segments
from wakelog.spark.columns import NULLABLE
from wakelog.spark.errors import OptionError
from wakelog.spark.source import (
    LogReader,
    RocketMQSource,
)

WHOLE = ("basic", "batch", "delay_tx_retry", "filter_ext", "index_heavy", "ipv6")
COPIED = ("copied_log_basic", "copied_log_delay_tx_retry", "copied_log_multi_dispatch")
CRASHED = ("crash", "crash_torn_body", "crash_torn_page", "crash_torn_props", "crash_lost_cq")
STORES = [
    *((name, "store") for name in (*WHOLE, "multi_dispatch", "transient", *CRASHED, *COPIED)),
    *((name, "store_recovered") for name in CRASHED),
]
EVERYTHING = {"includeSystemTopics": "true", "includeRetry": "true", "includeDlq": "true"}


def read(spark: SparkSession, path: Path | str, **options: str) -> DataFrame:
    return spark.read.format("rocketmq").options(**options).load(str(path))


def log_of_two_topics() -> LogBytes:
    log = LogBytes()
    for i in range(6):
        log.add(
            properties(TAGS=f"t{i}"),
            topic="AB"[i % 2],
            queue_id=i % 2,
            queue_offset=i // 2,
            store_timestamp_ms=STORE_MS + i,
            body=b"%d" % i,
        )
    return log


def bodies(table: DataFrame) -> list[str]:
    return sorted(row[0].decode() for row in table.select("body").collect())


@pytest.mark.golden
@pytest.mark.spark
@pytest.mark.slow
def test_every_golden_store_has_the_messages_of_its_manifest(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = {f"{name}.{archive}": name for name, archive in STORES}
    paths = [open_golden(name, tmp_path, archive=archive)[0] for name, archive in STORES]
    stores = ",".join(f"{path.name}={path}" for path in paths)
    rows = read(spark, stores, **EVERYTHING).collect()
    found: dict[str, list[dict[str, Any]]] = {broker: [] for broker in names}
    for row in rows:
        found[row.brokerName].append(as_in_manifest(row))
    for broker, name in names.items():
        manifest = read_manifest(name)
        source = manifest.get("sourceFixture", name)
        expected = read_manifest(source)["messages"]
        assert found[broker] == [comparable(message) for message in expected], broker


def as_in_manifest(row: Row) -> dict[str, Any]:
    values = row.asDict()
    for name in ("bornTimestamp", "storeTimestamp"):
        values[name] = round(values[name].timestamp() * 1000)
    values["uniqKey"] = values["properties"].get("UNIQ_KEY")
    values["body"] = sha256(values["body"]).hexdigest()
    del values["brokerName"], values["msgId"]
    return values


def comparable(message: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest's message as a row; the digest is in the place of the body."""
    lacking = ("recordSha256", "storedBodyLength", "bodyLength", "bodyBase64", "bodySha256")
    body = message.get("bodySha256") or sha256(b64decode(message["bodyBase64"])).hexdigest()
    return {name: x for name, x in message.items() if name not in lacking} | {"body": body}


@pytest.mark.spark
@pytest.mark.slow
def test_a_schema_of_the_users_is_a_projection(spark: SparkSession, tmp_path: Path) -> None:
    write_segments(tmp_path / "log", log_of_two_topics())
    reader = spark.read.format("rocketmq").schema("queueOffset long, topic string")
    rows = reader.load(str(tmp_path / "log")).collect()
    assert rows[1:3] == [Row(queueOffset=0, topic="B"), Row(queueOffset=1, topic="A")]


@pytest.mark.spark
@pytest.mark.slow
def test_a_schema_may_declare_a_column_without_nulls(spark: SparkSession, tmp_path: Path) -> None:
    write_segments(tmp_path / "log", log_of_two_topics())
    schema = StructType([StructField("topic", StringType(), nullable=False)])
    table = spark.read.format("rocketmq").schema(schema).load(str(tmp_path / "log"))
    assert table.distinct().count() == 2


TABLES: list[dict[str, str]] = [
    {},
    {"propertiesFormat": "json"},
    {"schemaMode": "kafka"},
    {"table": "damage"},
]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("given", TABLES)
@pytest.mark.parametrize("nullable", [True, False])
def test_batches_have_the_schema_that_spark_makes_of_the_tables(
    spark: SparkSession, tmp_path: Path, given: dict[str, str], nullable: bool
) -> None:
    """Spark holds the first batch of a task against it: names, order, types and nullability."""
    log = log_of_two_topics()
    log.add(properties(TAGS="t", KEYS="k", UNIQ_KEY="U"))
    log.damage(log.offsets[2], b"damage!")
    source = RocketMQSource({"path": str(write_segments(tmp_path / "log", log)), **given})
    declared = StructType.fromDDL(source.schema())
    assert isinstance(declared, StructType)
    fields = declared.fields
    schema = StructType(
        [StructField(x.name, x.dataType, nullable or x.name in NULLABLE) for x in fields]
    )
    expected = to_arrow_schema(schema, timezone="UTC")
    reader = source.reader(schema)
    batches = [each for part in reader.partitions() for each in reader.read(part)]
    assert batches
    for batch in batches:
        assert isinstance(batch, pa.RecordBatch)
        assert batch.schema.equals(expected)


@pytest.mark.spark
@pytest.mark.slow
def test_a_topic_without_messages_is_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    write_segments(tmp_path / "log", log_of_two_topics())
    assert read(spark, tmp_path / "log", topic="Empty").collect() == []
    write_segments(tmp_path / "empty", LogBytes())
    assert read(spark, tmp_path / "empty").collect() == []


@pytest.mark.spark
@pytest.mark.slow
def test_several_tasks_read_each_message_once(spark: SparkSession, tmp_path: Path) -> None:
    log = LogBytes(segment_bytes=4096)
    for i in range(200):
        log.add(body=b"%d" % i)
    write_segments(tmp_path / "log", log)
    table = read(spark, tmp_path / "log", minPartitions="5", arrowBatchRows="7")
    assert table.rdd.getNumPartitions() >= 5
    assert bodies(table) == sorted(str(i) for i in range(200))


@pytest.mark.spark
@pytest.mark.slow
def test_damage_is_passed_over_and_is_a_table(spark: SparkSession, tmp_path: Path) -> None:
    log = log_of_two_topics()
    log.damage(log.offsets[2], b"damage!")
    log.damage(log.offsets[4] + 88, b"X")  # the body, which a CRC covers
    write_segments(tmp_path / "log", log)
    assert len(bodies(read(spark, tmp_path / "log"))) == 5
    assert bodies(read(spark, tmp_path / "log", verifyCrc="true")) == ["0", "1", "3", "5"]
    found = read(spark, tmp_path / "log", table="damage").collect()
    assert [(x.brokerName, x.beginOffset, x.endOffset) for x in found] == [
        ("log", log.offsets[2], log.offsets[3]),
        ("log", log.offsets[4], log.offsets[5]),
    ]
    assert [x.reason for x in found] == ["magic 0x676521a7", "the body's CRC differs"]


@pytest.mark.spark
@pytest.mark.slow
def test_several_stores_may_be_a_list(spark: SparkSession, tmp_path: Path) -> None:
    paths = [str(write_segments(tmp_path / name, log_of_two_topics())) for name in "ab"]
    table = spark.read.format("rocketmq").option("topic", "A").load(paths)
    counts = table.groupBy("brokerName").count().collect()
    assert {row.brokerName: row["count"] for row in counts} == {"a": 3, "b": 3}


@pytest.mark.spark
@pytest.mark.slow
def test_a_log_is_a_view_of_sql_and_no_table_of_the_catalog(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = write_segments(tmp_path / "log", log_of_two_topics())
    how = f"orders USING rocketmq OPTIONS (path '{path}', topic 'A')"
    spark.sql(f"CREATE TEMPORARY VIEW {how}")
    assert spark.sql("SELECT count(*) FROM orders").collect() == [(3,)]
    spark.catalog.dropTempView("orders")
    with pytest.raises(AnalysisException, match="say CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE {how}")


@pytest.mark.spark
@pytest.mark.slow
def test_each_use_of_one_table_has_the_rows_of_its_own_filter(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_segments(tmp_path / "log", log_of_two_topics())
    table = read(spark, tmp_path / "log")
    both = table.where("topic = 'A'").union(table.where("topic = 'B'"))
    assert bodies(both) == [*"012345"] == bodies(table)
    with pytest.raises(AnalysisException, match="it takes false only: Spark would use the filters"):
        read(spark, tmp_path / "log", pushdown="true").collect()


SCHEMAS: dict[str, tuple[StructType, str]] = {
    "unknown": (StructType([StructField("topik", StringType())]), "did you mean 'topic'"),
    "other type": (StructType([StructField("topic", LongType())]), "of type string, not bigint"),
    "other case": (StructType([StructField("TOPIC", StringType())]), "is spelled topic"),
    "no column": (StructType([]), "the schema has no column"),
    "twice": (StructType([StructField("tags", StringType())] * 2), "tags is in the schema twice"),
    "never null": (StructType([StructField("tags", StringType(), False)]), "is null for a message"),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_that_does_not_fit_is_refused(name: str) -> None:
    schema, message = SCHEMAS[name]
    with pytest.raises(OptionError, match=message):
        RocketMQSource({"path": "/s"}).reader(schema)


def test_the_options_choose_the_schema() -> None:
    columns = StructType([StructField("topic", StringType())])
    path = {"path": "/s"}
    assert type(RocketMQSource(path).reader(columns)) is LogReader
    assert (
        RocketMQSource(path | {"columns": "Body,topic"}).schema() == "`body` binary, `topic` string"
    )
    kafka = RocketMQSource(path | {"schemaMode": "kafka", "includeHeaders": "false"}).schema()
    assert kafka.endswith("`timestampType` int")
    json = RocketMQSource(path | {"propertiesFormat": "json", "columns": "properties"}).schema()
    assert json == "`properties` string"
