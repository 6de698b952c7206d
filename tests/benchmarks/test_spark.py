"""The Spark benchmark: its log, and the row-by-row way over it."""

from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from benchmarks.spark_log import QUEUES_COUNT, TOPIC, write_log
from benchmarks.spark_rows import RowReader, RowSource
from tests.spark.logs import query_rows
from wakelog.spark.columns import MESSAGE_COLUMNS


@pytest.mark.long
def test_the_log_can_be_read_and_row_by_row_it_says_the_same(tmp_path: Path) -> None:
    count = write_log(tmp_path / "commitlog", segments_count=2, segment_bytes=1 << 16)
    rows = query_rows(storePath=str(tmp_path))
    assert len(rows) == count
    assert {row["topic"] for row in rows} == {TOPIC}
    assert [row["queueOffset"] for row in rows] == [n // QUEUES_COUNT for n in range(count)]
    assert len({row["body"] for row in rows}) == count

    reader = RowSource({"path": str(tmp_path)}).reader(StructType())
    assert isinstance(reader, RowReader)
    plain = [row for part in reader.partitions() for row in reader.read(part)]
    times = {"bornTimestamp", "storeTimestamp"}
    for found, expected in zip(plain, rows, strict=True):
        named = dict(zip(MESSAGE_COLUMNS, found, strict=True))
        for name in times:
            named[name] = round(named[name].timestamp() * 1_000_000)
        named["properties"] = list(named["properties"].items())
        assert named == expected
