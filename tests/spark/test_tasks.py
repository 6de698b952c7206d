"""A task's part of a plan: its rows, its damage, and the lines that it logs."""

import logging
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tests.dispatchers.test_golden_rebuild import config_of
from tests.fakes.records import LogBytes
from tests.golden_stores import open_golden
from tests.spark.logs import write_segments
from wakelog.spark.options import ReadOptions, read_options
from wakelog.spark.query import PlannedTask, Query
from wakelog.spark.source import LogReader
from wakelog.spark.tasks import arrow_schema, read_damage, read_messages
from wakelog.storage.durability.sum_keeper import SumWriter
from wakelog.storage.file_system import FileSystem

PLACES = StructType([StructField("commitLogOffset", LongType())])
DAMAGE = StructType([StructField("beginOffset", LongType()), StructField("path", StringType())])


def test_the_empty_partition_of_spark_has_no_rows() -> None:
    schema = StructType([StructField("topic", StringType(), False)])
    reader = LogReader(read_options({"path": "/s"}), schema)
    assert list(reader.read(InputPartition(None))) == []
    damage = LogReader(read_options({"path": "/s", "table": "damage"}), schema)
    assert list(damage.read(InputPartition(None))) == []
    assert not arrow_schema(schema).field("topic").nullable


def damaged(folder: Path, **values: str) -> tuple[LogBytes, ReadOptions, list[PlannedTask]]:
    log = LogBytes(segment_bytes=512)
    for _ in range(15):
        log.add()
    log.damage(log.offsets[1], b"XXXX")
    write_segments(folder, log)
    (folder / f"{512:020d}").unlink()
    options = read_options({"path": str(folder), "failOnDataLoss": "false", **values})
    query = Query(options)
    views = query.views()
    return log, options, query.plan(views, query.select(views))


def test_the_log_names_the_parts_that_were_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, options, [planned] = damaged(tmp_path)
    with caplog.at_level(logging.WARNING):
        batches = list(read_messages(options, PLACES, planned))
    found = [place for batch in batches for place in batch.column(0).to_pylist()]
    assert found == [x for x in log.offsets if x != log.offsets[1] and not 512 <= x < 1024]
    assert "have no readable message: size" in caplog.text
    assert f"physical offsets {log.offsets[1]} to {log.offsets[2]}" in caplog.text


def test_damage_and_gaps_are_rows(tmp_path: Path) -> None:
    log, options, [planned] = damaged(tmp_path, table="damage")
    rows = [row for batch in read_damage(options, DAMAGE, planned) for row in batch.to_pylist()]
    assert rows == [
        {"beginOffset": 512, "path": ""},
        {"beginOffset": log.offsets[1], "path": str(tmp_path / f"{0:020d}")},
    ]


def test_the_options_of_rows() -> None:
    options = read_options({"path": "/s", "verifyCrc": "true", "arrowBatchRows": "5"})
    assert (options.rows.verify_crc, options.rows.batch_rows) == (True, 5)


@pytest.mark.golden
def test_rot_that_no_crc_covers_is_damage_by_the_sums(tmp_path: Path) -> None:
    store, manifest = open_golden("basic", tmp_path)
    while SumWriter(FileSystem(), config_of(manifest, store)).step(1 << 20, 1 << 30):
        pass
    options = read_options({"path": str(store), "table": "damage"})
    query = Query(options)
    views = query.views()
    plan = query.plan(views, query.select(views))

    def damage() -> list[int]:
        found = [read_damage(options, DAMAGE, planned) for planned in plan]
        return [row["beginOffset"] for each in found for batch in each for row in batch.to_pylist()]

    assert damage() == []
    segment = min((store / "commitlog").iterdir())
    rotten = bytearray(segment.read_bytes())
    rotten[48] ^= 1  # of the time at which the message was made
    segment.write_bytes(rotten)
    assert damage() == [0]
