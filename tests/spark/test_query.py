"""Queries without Spark: however a log is divided into tasks, each message is a row once."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.records import LogBytes, properties
from tests.golden_stores import open_golden
from tests.spark.logs import FS, columns, query_rows, task_reader, write_segments
from wakelog.spark.errors import DataLost
from wakelog.spark.options import read_options
from wakelog.spark.query import PlannedTask, Query
from wakelog.spark.records.column_walk import RecordWalk

SCHEMA = columns("commitLogOffset")
EVERYTHING = {"includeSystemTopics": "true", "includeRetry": "true", "includeDlq": "true"}


def planned(**options: str) -> tuple[Query, list[PlannedTask]]:
    query = Query(read_options(options))
    views = query.views()
    return query, query.plan(views, query.select(views))


def places(planned_tasks: list[PlannedTask], walk: RecordWalk, **options: str) -> list[Any]:
    read = read_options(options)
    return [
        row["commitLogOffset"]
        for each in planned_tasks
        for batch in task_reader(read, each.selection, walk).batches(each.task, SCHEMA)
        for row in batch.to_pylist()
    ]


CUTS: list[Any] = [
    ({}, 1),
    ({"minPartitions": "9"}, 9),
    ({"maxBytesPerPartition": "20k"}, 50),
    ({"maxRecordsPerPartition": "10"}, 81),
    pytest.param({"maxBytesPerPartition": "100"}, 200, marks=pytest.mark.long),
]


@pytest.mark.golden
@pytest.mark.parametrize(("options", "least"), CUTS)
@pytest.mark.parametrize("name", ["basic", "copied_log_basic"])
def test_every_cut_gives_each_message_once(
    name: str, options: dict[str, str], least: int, walk: RecordWalk, tmp_path: Path
) -> None:
    store, _ = open_golden(name, tmp_path)
    _, manifest = open_golden("basic", tmp_path)
    expected = [message["commitLogOffset"] for message in manifest["messages"]]
    given = {"path": str(store), **EVERYTHING, **options}
    _, tasks = planned(**given)
    segments = len(list((store / "commitlog").iterdir()))
    # A log without queues that has many segments is not walked to be cut.
    walked = name == "basic" or "maxRecordsPerPartition" in options or not options
    assert len(tasks) >= (least if walked else min(least, segments // 2))
    assert places(tasks, walk, **given) == expected


def test_a_log_without_queues_is_cut_while_it_is_short(walk: RecordWalk, tmp_path: Path) -> None:
    log = LogBytes(segment_bytes=1 << 15)
    for i in range(400):
        log.add(body=bytes(i % 50))
    path = str(write_segments(tmp_path, log))
    _, tasks = planned(path=path, minPartitions="7")
    assert len(tasks) >= 7
    assert places(tasks, walk, path=path) == log.offsets


def test_a_partition_has_at_most_so_many_records(walk: RecordWalk, tmp_path: Path) -> None:
    log = LogBytes(segment_bytes=1 << 15)
    for _ in range(45):
        log.add()
    path = str(write_segments(tmp_path, log))
    _, tasks = planned(path=path, maxRecordsPerPartition="10")
    counts = [len(places([task], walk, path=path)) for task in tasks]
    assert counts == [10, 10, 10, 10, 5]


def test_a_missing_segment_is_lost_data(walk: RecordWalk, tmp_path: Path) -> None:
    log = LogBytes(segment_bytes=512)
    for _ in range(20):
        log.add()
    folder = write_segments(tmp_path, log)
    (folder / f"{512:020d}").unlink()
    with pytest.raises(DataLost, match="no file for physical offsets 512 to 1024"):
        planned(path=str(folder))
    left = [place for place in log.offsets if not 512 <= place < 1024]
    _, tasks = planned(path=str(folder), failOnDataLoss="false")
    assert places(tasks, walk, path=str(folder)) == left
    [(_, gap)] = tasks[0].gaps
    assert (gap.begin, gap.end) == (512, 1024)


def test_the_log_of_a_store_that_grows_is_read_as_it_was_planned(
    walk: RecordWalk, tmp_path: Path
) -> None:
    log = LogBytes(segment_bytes=1 << 15)
    log.add()
    folder = write_segments(tmp_path, log)
    _, tasks = planned(path=str(folder))
    log.add()
    write_segments(tmp_path, log)
    assert places(tasks, walk, path=str(folder)) == log.offsets[:1]
    assert len(query_rows(SCHEMA, walk, path=str(folder))) == 2


def test_views_take_ends_that_are_known(tmp_path: Path) -> None:
    log = LogBytes()
    log.add()
    path = str(write_segments(tmp_path / "b", log))
    [view] = Query(read_options({"path": path})).views({"b": log.end})
    assert view.end == log.end


@pytest.mark.slow
def test_a_log_that_is_being_written_is_read_up_to_a_whole_record(
    walk: RecordWalk, tmp_path: Path
) -> None:
    """At every moment of writing a record, byte by byte, the rows are a front part."""
    log = LogBytes(segment_bytes=1 << 14)
    for i in range(3):
        log.add(body=bytes([1 + i]) * 60, properties=properties(KEYS="k" * 20))
    [segment] = write_segments(tmp_path / "commitlog", log).iterdir()
    whole = segment.read_bytes()
    with open(tmp_path / "lock", "w") as lock:
        assert FS.lock_byte(lock.fileno(), 0)
        for written in range(log.offsets[2], log.end + 1):
            segment.write_bytes(whole[:written].ljust(len(whole), b"\0"))
            rows = query_rows(SCHEMA, walk, path=str(tmp_path))
            found = [row["commitLogOffset"] for row in rows]
            assert found == (log.offsets if written == log.end else log.offsets[:2])


@pytest.mark.parametrize("count", [1, 3])
def test_noise_at_a_logs_end_is_damage_and_no_loss(count: int, tmp_path: Path) -> None:
    log = LogBytes(segment_bytes=1 << 16)
    for _ in range(count):
        log.add(properties(TAGS="a"))
    log.damage(log.offsets[-1] + 4, b"XXXX")
    folder = str(write_segments(tmp_path, log))
    _, [task, *_] = planned(path=folder, table="damage")
    [(_, tail)] = task.gaps
    assert (tail.begin, tail.end) == (log.offsets[-1], log.end)
    _, messages = planned(path=folder)
    assert all(not each.gaps for each in messages)
