"""Snapshots are read to the byte, without Spark; the error of a lost file says why."""

import itertools
import json
from pathlib import Path

import pytest

from tests.fakes.records import LogBytes
from tests.spark.logs import FS, columns, query_rows, task_reader
from tests.spark.snapshot_parts import snapshot_of, write_store
from wakelog.spark.errors import DataLost, OptionError
from wakelog.spark.options import read_options
from wakelog.spark.query import Query
from wakelog.spark.records.column_walk import RecordWalk
from wakelog.spark.snapshots import explained, read_snapshots
from wakelog.storage.paths import StorePaths
from wakelog.storage.retention.leases import Lease, write_leases

PLACES = columns("commitLogOffset")


@pytest.fixture(scope="module")
def log() -> LogBytes:
    log = LogBytes(segment_bytes=1 << 13)
    for number in range(120):
        log.add(queue_offset=number, body=bytes(100))
    return log


def places(walk: RecordWalk, *snapshots: dict[str, object], **options: str) -> list[int]:
    text = json.dumps(snapshots[0] if len(snapshots) == 1 else snapshots)
    rows = query_rows(PLACES, walk, snapshot=text, **options)
    return [row["commitLogOffset"] for row in rows]


def test_exactly_the_snapshots_messages_are_read(
    log: LogBytes, walk: RecordWalk, tmp_path: Path
) -> None:
    root = write_store(tmp_path, log)
    for first, last in ((0, 120), (0, 1), (30, 31), (17, 101), (60, 60)):
        ends = [*log.offsets, log.end]
        snapshot = snapshot_of(root, ends[first], ends[last])
        assert places(walk, snapshot) == log.offsets[first:last]
        assert places(walk, snapshot, readMode="ray") == log.offsets[first:last]


def test_later_messages_belong_to_the_next_snapshot(
    log: LogBytes, walk: RecordWalk, tmp_path: Path
) -> None:
    root = write_store(tmp_path, log)
    borders = [0, log.offsets[40], log.offsets[41], log.end]
    found = [
        place
        for begin, end in itertools.pairwise(borders)
        for place in places(walk, snapshot_of(root, begin, end), minPartitions="3")
    ]
    assert found == log.offsets


def test_other_options_narrow_a_snapshot_further(
    log: LogBytes, walk: RecordWalk, tmp_path: Path
) -> None:
    snapshot = snapshot_of(write_store(tmp_path, log), log.offsets[10], log.offsets[90])
    starting = '{"T":{"0":20}}'
    assert places(walk, snapshot, topic="T", startingOffsets=starting) == log.offsets[20:90]
    assert places(walk, snapshot, startingOffsets="latest") == []


def test_snapshots_of_several_brokers_are_one_table(
    log: LogBytes, walk: RecordWalk, tmp_path: Path
) -> None:
    first = snapshot_of(write_store(tmp_path / "a", log), 0, log.offsets[5])
    second = snapshot_of(
        write_store(tmp_path / "b", log), log.offsets[7], log.offsets[9], broker="broker-b"
    )
    assert places(walk, first, second) == [*log.offsets[:5], *log.offsets[7:9]]


LEASES = {
    "expired": ([], "it was not renewed, or it was given back"),
    "lost": (
        [Lease("a", "", 0, 1, 1, "a disk of the store was 91 % full")],
        "ended by the broker: a disk of the store was 91 % full",
    ),
    "held": ([Lease("a", "", 0, 1, 1)], "another program than the broker removed it"),
}


@pytest.mark.parametrize("name", LEASES)
def test_a_segment_that_is_gone_is_an_error_that_says_why(
    name: str, log: LogBytes, walk: RecordWalk, tmp_path: Path
) -> None:
    leases, reason = LEASES[name]
    root = write_store(tmp_path, log)
    snapshot = snapshot_of(root, 0, log.end)
    write_leases(FS, StorePaths(str(root)), leases)
    gone = root / "commitlog" / ("0" * 20)
    gone.unlink()
    with pytest.raises(DataLost, match=f"{gone} is not there: .*{reason}"):
        places(walk, snapshot)
    left = [place for place in log.offsets if place >= 1 << 13]
    assert places(walk, snapshot, failOnDataLoss="false") == left


def test_a_task_that_finds_a_segment_gone_says_why(
    log: LogBytes, walk: RecordWalk, tmp_path: Path
) -> None:
    root = write_store(tmp_path, log)
    options = read_options({"snapshot": json.dumps(snapshot_of(root, 0, log.end))})
    query = Query(options)
    views = query.views()
    [planned] = query.plan(views, query.select(views))
    (root / "commitlog" / ("0" * 20)).unlink()
    batches = task_reader(options, planned.selection, walk).batches(planned.task, PLACES)
    with pytest.raises(DataLost, match=r"the file was removed .*; the snapshot's lease has ended"):
        list(explained(FS, options.snapshots, batches))


def test_another_store_in_the_place_of_the_snapshots_is_an_error(
    log: LogBytes, walk: RecordWalk, tmp_path: Path
) -> None:
    root = write_store(tmp_path, log)
    with pytest.raises(DataLost, match="is another store now"):
        places(walk, snapshot_of(root, 0, log.end, storeId="another"))
    (root / "wakelog.store").write_text("{}")
    segment = root / "commitlog" / ("0" * 20)
    segment.write_bytes(b"short")
    segments = [{"path": str(segment), "begin": 0, "end": 1 << 13}]
    with pytest.raises(DataLost, match="is 5 bytes long now"):
        places(walk, snapshot_of(root, 0, 1, segments=segments))


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", "/data/store", '[{"version":1}]'])
def test_a_text_that_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"option snapshot .* takes "):
        read_options({"snapshot": text})


def test_a_broker_has_one_snapshot(log: LogBytes, tmp_path: Path) -> None:
    snapshot = snapshot_of(write_store(tmp_path, log), 0, 0)
    with pytest.raises(ValueError, match="one snapshot of each broker"):
        read_snapshots(json.dumps([snapshot, snapshot]))
    assert len(read_snapshots(json.dumps(snapshot))) == 1


def test_a_snapshot_and_a_path_exclude_one_another(log: LogBytes, tmp_path: Path) -> None:
    text = json.dumps(snapshot_of(write_store(tmp_path, log), 0, 0))
    with pytest.raises(OptionError, match="exclude one another"):
        read_options({"snapshot": text, "storePath": "/data/store"})
