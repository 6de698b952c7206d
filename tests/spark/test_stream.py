"""Streams: offsets of micro-batches without Spark, and exactness through Spark's checkpoints."""

import random
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from tests.fakes.records import STORE_MS, LogBytes
from tests.spark.logs import write_segments
from wakelog.spark.errors import DataLost
from wakelog.spark.log_end import TAIL_BYTES
from wakelog.spark.options import read_options
from wakelog.spark.stream import LogStreamReader

SCHEMA = StructType([StructField("commitLogOffset", LongType())])
ALL = ReadAllAvailable()


def log_of(count: int, segment_bytes: int = 1024) -> LogBytes:
    log = LogBytes(segment_bytes=segment_bytes)
    for i in range(count):
        add(log, i)
    return log


def add(log: LogBytes, i: int) -> None:
    log.add(topic="AB"[i % 2], queue_offset=i // 2, body=b"%d" % i, store_timestamp_ms=STORE_MS + i)


def reader(
    path: Path | str, now_s: Callable[[], float] = lambda: 0.0, **options: str
) -> LogStreamReader:
    given = {"path": str(path), "startingOffsets": "earliest", **options}
    return LogStreamReader(read_options(given), SCHEMA, now_s=now_s)


def rows(stream: LogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    found = []
    for partition in stream.partitions(start, end):
        for batch in stream.read(partition):
            found += batch.column(0).to_pylist()
    return found


def batches(stream: LogStreamReader, start: dict[str, Any] | None = None) -> list[list[int]]:
    """Run micro-batches until nothing is left, as Spark does; return their rows."""
    start = start or stream.initialOffset()
    found = []
    while (end := stream.latestOffset(start, stream.getDefaultReadLimit())) != start:
        found.append(rows(stream, start, end))
        start = end
    return found


def offset_at(log: LogBytes) -> dict[str, Any]:
    """Return the offset of a stream that has read a log's last segment to its end."""
    tail = crc32(log.data[-min(TAIL_BYTES, log.end % log.segment_bytes) :])
    return {"v": 1, "log": {"b": log.end}, "tails": {"b": tail}}


def test_a_stream_reads_old_messages_and_then_new_ones(tmp_path: Path) -> None:
    log = log_of(5)
    write_segments(tmp_path / "b", log)
    stream = reader(tmp_path / "b")
    start = stream.initialOffset()
    assert start == {"v": 1, "log": {"b": 0}}
    end = stream.latestOffset(start, ALL)
    assert end == stream.reportLatestOffset() == offset_at(log)
    assert rows(stream, start, end) == log.offsets
    assert stream.latestOffset(end, ALL) == end
    assert stream.partitions(end, end) == []
    for i in range(5, 30):
        add(log, i)
    write_segments(tmp_path / "b", log)
    later = stream.latestOffset(end, ALL)
    assert rows(stream, end, later) == log.offsets[5:]
    # A micro-batch that is planned again, as after a restart, is the same.
    assert rows(reader(tmp_path / "b"), start, end) == log.offsets[:5]
    stream.commit(later)
    stream.stop()


def test_a_stream_begins_at_the_latest_by_default(tmp_path: Path) -> None:
    log = log_of(5)
    path = str(write_segments(tmp_path / "b", log))
    stream = LogStreamReader(read_options({"path": path}), SCHEMA)
    assert stream.initialOffset() == offset_at(log)


@pytest.mark.parametrize("rows_max", [1, 3, 7, 100])
def test_a_limit_of_rows(rows_max: int, tmp_path: Path) -> None:
    log = log_of(20)
    write_segments(tmp_path, log)
    stream = reader(tmp_path, maxOffsetsPerTrigger=str(rows_max), topic="A")
    assert stream.getDefaultReadLimit() == ReadMaxRows(rows_max)
    found = batches(stream)
    assert list(chain(*found)) == log.offsets[::2]
    assert all(len(each) == rows_max for each in found[:-1])


@pytest.mark.parametrize("bytes_max", [1, 150, 1000, 1 << 20])
def test_a_limit_of_bytes(bytes_max: int, tmp_path: Path) -> None:
    log = log_of(20)
    write_segments(tmp_path, log)
    stream = reader(tmp_path, maxBytesPerTrigger=str(bytes_max))
    assert stream.getDefaultReadLimit() == ReadMaxBytes(bytes_max)
    found = batches(stream)
    assert list(chain(*found)) == log.offsets
    record = log.offsets[1]
    assert all(len(each) <= max(bytes_max // (record - 2), 1) for each in found)


def test_both_limits_hold_and_none_if_all_is_asked_for(tmp_path: Path) -> None:
    log = log_of(20)
    write_segments(tmp_path, log)
    stream = reader(tmp_path, maxBytesPerTrigger="500", maxOffsetsPerTrigger="2")
    start = stream.initialOffset()
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert len(rows(stream, start, end)) == 2
    assert len(rows(stream, start, stream.latestOffset(start, ALL))) == 20


def test_several_stores_share_a_limit_by_their_waiting_messages(tmp_path: Path) -> None:
    logs = {"a": log_of(30), "b": log_of(10)}
    for name, log in logs.items():
        write_segments(tmp_path / name, log)
    stream = reader(f"{tmp_path}/*", maxOffsetsPerTrigger="8")
    start = stream.initialOffset()
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert end["log"] == {"a": logs["a"].offsets[6], "b": logs["b"].offsets[1]}
    assert sum(map(len, batches(stream))) == 40


@pytest.mark.parametrize("most", [{}, {"maxOffsetsPerTrigger": "50"}])
def test_a_least_number_of_rows_is_waited_for_but_not_for_ever(
    most: dict[str, str], tmp_path: Path
) -> None:
    log = log_of(4)
    write_segments(tmp_path, log)
    now = [0.0]
    stream = reader(
        tmp_path,
        lambda: now[0],
        minOffsetsPerTrigger="6",
        maxTriggerDelay="10s",
        **most,
    )
    start, limit = stream.initialOffset(), stream.getDefaultReadLimit()
    assert stream.latestOffset(start, limit) == start
    now[0] = 9.9
    assert stream.latestOffset(start, limit) == start
    now[0] = 10.0
    end = stream.latestOffset(start, limit)
    assert len(rows(stream, start, end)) == 4
    for i in range(4, 12):
        add(log, i)
    write_segments(tmp_path, log)
    now[0] = 10.5
    assert len(rows(stream, end, stream.latestOffset(end, limit))) == 8


def test_available_now_ends_on_a_log_that_grows(tmp_path: Path) -> None:
    log = log_of(10)
    write_segments(tmp_path, log)
    stream = reader(tmp_path, maxOffsetsPerTrigger="3")
    start = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    read: list[int] = []
    for i in range(10, 60, 5):
        end = stream.latestOffset(start, stream.getDefaultReadLimit())
        if end == start:
            break
        read += rows(stream, start, end)
        start = end
        for k in range(i, i + 5):
            add(log, k)
        write_segments(tmp_path, log)
    else:
        raise AssertionError("it goes on")
    assert read == log.offsets[:10]


def test_where_single_queues_begin_is_kept_with_the_offset(tmp_path: Path) -> None:
    log = log_of(12)
    write_segments(tmp_path / "b", log)
    stream = reader(tmp_path / "b", startingOffsets='{"A":{"0":4},"B":{"0":-1}}')
    start = stream.initialOffset()
    assert start["offsets"] == {"b": {"A": {"0": 4}}}
    assert start["places"] == {"b": {"B": {"0": log.end}}}
    for i in range(12, 14):
        add(log, i)
    write_segments(tmp_path / "b", log)
    end = reader(tmp_path / "b").latestOffset(start, ALL)
    assert rows(reader(tmp_path / "b"), start, end) == [log.offsets[i] for i in (8, 10, 12, 13)]
    assert end["offsets"] == start["offsets"]


def test_a_time_is_where_a_stream_begins(tmp_path: Path) -> None:
    log = log_of(12)
    write_segments(tmp_path / "b", log)
    stream = reader(tmp_path / "b", startingTimestamp=str(STORE_MS + 7))
    assert stream.initialOffset()["log"] == {"b": log.offsets[7]}


def test_messages_that_expired_before_they_were_read(tmp_path: Path) -> None:
    log = log_of(20)
    folder = write_segments(tmp_path / "b", log)
    stream = reader(folder)
    start = stream.initialOffset()
    (folder / f"{0:020d}").unlink()
    with pytest.raises(DataLost, match="begins at physical offset 1024 now"):
        stream.latestOffset(start, ALL)
    lenient = reader(folder, failOnDataLoss="false")
    end = lenient.latestOffset(start, ALL)
    assert rows(lenient, start, end) == [x for x in log.offsets if x >= 1024]


def test_a_log_that_was_cut_off_or_is_gone(tmp_path: Path) -> None:
    log = log_of(20)
    folder = write_segments(tmp_path / "b", log)
    stream = reader(tmp_path / "*")
    start = stream.latestOffset(stream.initialOffset(), ALL)
    for path in sorted(folder.iterdir())[1:]:
        path.unlink()
    with pytest.raises(DataLost, match="ends at physical offset 1024"):
        stream.latestOffset(start, ALL)
    folder.rename(tmp_path / "c")
    with pytest.raises(DataLost, match="the stores of b are not there any more"):
        stream.latestOffset(start, ALL)


@pytest.mark.parametrize("added", [0, 2, 5, 9])
def test_a_log_that_lost_its_end_and_went_on_otherwise(added: int, tmp_path: Path) -> None:
    """Its segments are as long as before, and a record may begin at the same place again."""
    log = log_of(20)
    folder = write_segments(tmp_path / "b", log)
    stream = reader(folder)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    cut = log.offsets[-5]
    del log.data[cut:]
    for i in range(100, 100 + added):
        add(log, i)
    write_segments(folder, log)
    for again in (stream, reader(folder)):
        with pytest.raises(DataLost, match="the log of b was cut off: the stream has read"):
            again.latestOffset(end, ALL)
        with pytest.raises(DataLost, match="the log of b was cut off"):
            again.partitions(start, end)
    lenient = reader(folder, failOnDataLoss="false")
    later = lenient.latestOffset(end, ALL)
    assert set(rows(lenient, end, later)) <= set(log.offsets)


def test_an_offset_of_before_there_were_tails(tmp_path: Path) -> None:
    log = log_of(5)
    folder = write_segments(tmp_path / "b", log)
    stream = reader(folder)
    old = {"v": 1, "log": {"b": log.offsets[3]}}
    assert rows(stream, old, stream.latestOffset(old, ALL)) == log.offsets[3:5]


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream_that_is_stopped_at_random_delivers_each_message_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    def writer(**options: str) -> Any:
        table = spark.readStream.format("rocketmq").option("startingOffsets", "earliest")
        to = {"path": str(tmp_path / "out"), "checkpointLocation": str(tmp_path / "checkpoint")}
        read = table.options(**options).load(str(tmp_path / "log"))
        return read.writeStream.format("parquet").options(**to)

    choices = random.Random(7)
    log = log_of(0)
    count = 0
    for _ in range(3):
        for _ in range(choices.randrange(1, 60)):
            add(log, count)
            count += 1
        write_segments(tmp_path / "log", log)
        query = writer(maxOffsetsPerTrigger=str(choices.randrange(20, 50))).start()
        # Stopped in the middle of whatever it does.
        query.awaitTermination(choices.uniform(0.3, 1.3))
        query.stop()
    writer().trigger(availableNow=True).start().awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out")).select("body").collect()
    assert sorted(int(row.body) for row in found) == list(range(count))
