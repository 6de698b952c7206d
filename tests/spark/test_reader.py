"""A task over files that change meanwhile: an error or the rows left, and never wrong rows."""

import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from tests.fakes.records import LogBytes, properties
from tests.spark.logs import FS, MESSAGES, columns, write_segments
from wakelog.spark.errors import DataLost
from wakelog.spark.plan import ReadRange, Task
from wakelog.spark.reader import EVERY_MESSAGE, Found, TaskReader, read_damage
from wakelog.spark.records.column_walk import FILE_ENDS, RecordWalk, RowOptions
from wakelog.spark.stores import open_store

SCHEMA = columns("brokerName", "commitLogOffset")


def make(
    folder: Path, walk: RecordWalk, *, fail: bool
) -> tuple[LogBytes, Task, TaskReader, list[Found]]:
    log = LogBytes(segment_bytes=1 << 14)
    for _ in range(150):
        log.add()
    store = open_store(FS, str(write_segments(folder, log)), "b")
    task = tuple(
        ReadRange("b", part, part.begin, min(part.end, log.end)) for part in store.segments
    )
    found: list[Found] = []
    reader = TaskReader(
        FS, EVERY_MESSAGE, RowOptions(), fail_on_data_loss=fail, report=found.append, walk=walk
    )
    return log, task, reader, found


def offsets(reader: TaskReader, task: Task) -> list[int]:
    return [
        row["commitLogOffset"]
        for batch in reader.batches(task, SCHEMA)
        for row in batch.to_pylist()
    ]


def test_rows_have_the_brokers_name(walk: RecordWalk, tmp_path: Path) -> None:
    log, task, reader, _ = make(tmp_path, walk, fail=True)
    [first, *_] = [row for batch in reader.batches(task, SCHEMA) for row in batch.to_pylist()]
    assert first == {"brokerName": "b", "commitLogOffset": 0}
    assert offsets(reader, task) == offsets(reader, task) == log.offsets


def test_a_segment_that_was_removed(walk: RecordWalk, tmp_path: Path) -> None:
    log, task, reader, _ = make(tmp_path, walk, fail=True)
    Path(task[0].segment.path).unlink()
    with pytest.raises(DataLost, match=r"the file was removed .* set failOnDataLoss to false"):
        offsets(reader, task)
    _, _, reader, found = make(tmp_path / "again", walk, fail=False)
    assert offsets(reader, task) == [x for x in log.offsets if x >= task[0].end]
    [(broker, path, damage)] = found
    assert (broker, path) == ("b", task[0].segment.path)
    assert (damage.begin, damage.end) == (task[0].begin, task[0].end)


def test_a_segment_that_is_removed_while_it_is_read(walk: RecordWalk, tmp_path: Path) -> None:
    log, task, reader, _ = make(tmp_path, walk, fail=True)
    batches = reader.batches(task[:1], SCHEMA)
    rows = next(batches).to_pylist()
    Path(task[0].segment.path).unlink()
    rows += [row for batch in batches for row in batch.to_pylist()]
    assert [row["commitLogOffset"] for row in rows] == [x for x in log.offsets if x < task[0].end]


def test_a_segment_that_was_cut_off(walk: RecordWalk, tmp_path: Path) -> None:
    _, task, reader, _ = make(tmp_path, walk, fail=True)
    with open(task[-1].segment.path, "r+b") as segment:
        segment.truncate(10)
    with pytest.raises(DataLost, match=FILE_ENDS):
        offsets(reader, task)


def test_a_log_that_was_cut_and_goes_on_otherwise(walk: RecordWalk, tmp_path: Path) -> None:
    log, task, reader, found = make(tmp_path, walk, fail=True)
    other = LogBytes(segment_bytes=1 << 14)
    other.add(body=bytes(77))
    for _ in range(140):
        other.add()
    write_segments(tmp_path, other)
    begin = log.offsets[50]
    part = task[0]._replace(begin=begin)
    rows = offsets(reader, (part,))
    assert set(rows) <= set(other.offsets)
    assert found[0].damage.begin == begin


def test_all_damage_of_a_task(walk: RecordWalk, tmp_path: Path) -> None:
    log, task, *_ = make(tmp_path, walk, fail=True)
    path = Path(task[0].segment.path)
    data = bytearray(path.read_bytes())
    data[log.offsets[3] : log.offsets[3] + 4] = b"XXXX"
    data[log.offsets[9] + 88] ^= 1
    path.write_bytes(data)
    damage = read_damage(FS, task, RowOptions(), walk)
    found = [(x.path, x.damage.begin, x.damage.end) for x in damage]
    assert found == [
        (str(path), log.offsets[3], log.offsets[4]),
        (str(path), log.offsets[9], log.offsets[10]),
    ]


@pytest.mark.slow
def test_memory_is_bounded_by_the_batch_whatever_the_segment(tmp_path: Path) -> None:
    log = LogBytes(32 << 20)
    for i in range(7000):
        log.add(properties(TAGS="t", KEYS=f"k{i}"), queue_offset=i, body=b"%04d" % i * 1000)
    store = open_store(FS, str(write_segments(tmp_path, log)), "b")
    task = (ReadRange("b", store.segments[0], 0, log.end),)
    reader = TaskReader(FS, EVERY_MESSAGE, RowOptions(batch_bytes=1 << 20))
    pool = pa.default_memory_pool()
    rows_count, arrow_before, arrow_most = 0, pool.bytes_allocated(), 0
    tracemalloc.start()
    try:
        for batch in reader.batches(task, MESSAGES):
            rows_count += len(batch)
            arrow_most = max(arrow_most, pool.bytes_allocated() - arrow_before)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows_count == 7000
    # A batch, the one before it while that is still held, and the buffer that they are made of.
    assert most_bytes + arrow_most < 12 << 20 < log.end // 2
