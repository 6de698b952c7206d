"""Messages for Ray Data: the arguments, the tasks, the columns; without Ray.

With Ray it runs in `test_ray_on_spark.py`.
"""

import inspect
import pickle
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.records import STORE_MS, LogBytes, properties
from tests.public_arguments import ODD, accepts, arguments_of, twins_of
from tests.spark.logs import KAFKA, MESSAGES, write_segments
from tests.spark.snapshot_parts import snapshot_of, write_store
from wakelog.spark import ray_data
from wakelog.spark.errors import DataLost, OptionError, SourceError
from wakelog.spark.ray_data import (
    LogReads,
    RayDataMissing,
    read_tables,
    read_wakelog,
)


@pytest.fixture
def log() -> LogBytes:
    """Return two queues of ten messages, stored a second after one another."""
    log = LogBytes(segment_bytes=1 << 12)
    for number in range(20):
        log.add(
            properties(TAGS="x"),
            queue_id=number % 2,
            queue_offset=number // 2,
            store_timestamp_ms=STORE_MS + 1000 * number,
            body=b"%d" % number,
        )
    return log


@pytest.fixture
def folder(log: LogBytes, tmp_path: Path) -> str:
    return str(write_segments(tmp_path / "log", log))


def bodies(reads: LogReads, parallelism: int = 1) -> list[int]:
    schema = reads.schema(["body"])
    return [
        int(body)
        for planned in reads.plan(parallelism)
        for table in read_tables(reads.options, schema, planned)
        for body in table["body"].to_pylist()
    ]


def moment(number: int, *, zone: Any = UTC) -> datetime:
    return datetime.fromtimestamp(STORE_MS / 1000 + number, UTC).replace(tzinfo=zone)


ALL = [*range(20)]
RANGES: dict[str, tuple[dict[str, Any], list[int]]] = {
    "everything": ({}, ALL),
    "words": ({"start_offset": "earliest", "end_offset": "latest"}, ALL),
    "offsets": ({"start_offset": 2, "end_offset": 4}, [4, 5, 6, 7]),
    "nothing": ({"start_offset": 10}, []),
    "times": ({"start_offset": moment(5), "end_offset": moment(7)}, [5, 6]),
    "a time without a zone": ({"start_offset": moment(18, zone=None)}, [18, 19]),
    "a time to come": ({"start_offset": moment(99)}, []),
    "by queue": (
        {"start_offset": {"T": {0: 8, 1: "earliest"}}, "end_offset": {"T": {1: 2, 0: "latest"}}},
        [1, 3, 16, 18],
    ),
}


@pytest.mark.parametrize("name", RANGES)
def test_what_is_read(name: str, folder: str) -> None:
    arguments, expected = RANGES[name]
    assert bodies(LogReads("T", store_path=folder, **arguments)) == expected


def test_a_path_may_be_one_of_pathlib(folder: str) -> None:
    assert bodies(LogReads("T", store_path=Path(folder))) == ALL


def test_tasks_are_as_many_as_ray_asks_for_and_give_each_message_once(folder: str) -> None:
    reads = LogReads(["T"], store_path=folder)
    assert len(reads.plan(6)) >= 6
    assert bodies(reads, 6) == ALL


def test_a_log_that_grows_is_one_table_for_all_calls(log: LogBytes, tmp_path: Path) -> None:
    folder = str(write_segments(tmp_path / "log", log))
    reads = LogReads("T", store_path=folder)
    reads.plan()
    log.add(body=b"99")
    write_segments(tmp_path / "log", log)
    assert bodies(reads, 3) == ALL
    assert bodies(pickle.loads(pickle.dumps(reads))) == ALL
    assert bodies(LogReads("T", store_path=folder)) == [*ALL, 99]


def test_snapshots_of_brokers_are_read_to_the_byte(log: LogBytes, tmp_path: Path) -> None:
    root = write_store(tmp_path / "store", log)
    snapshot = snapshot_of(root, log.offsets[3], log.offsets[5])
    reads = LogReads("T", snapshots=[snapshot])
    assert bodies(reads) == [3, 4]
    [planned] = reads.plan()
    Path(snapshot["segments"][0]["path"]).unlink()
    with pytest.raises(DataLost, match="the snapshot's lease has ended"):
        list(read_tables(reads.options, reads.schema(), planned))


def test_columns_are_those_of_the_spark_table(folder: str) -> None:
    assert LogReads("T", store_path=folder).schema() == MESSAGES
    kafka = LogReads("T", store_path=folder, options={"schemaMode": "kafka"})
    assert kafka.schema() == KAFKA
    assert kafka.schema([]).names == ["partition"]
    chosen = LogReads("T", store_path=folder, options={"columns": "body,topic"})
    assert chosen.schema().names == ["body", "topic"]
    assert chosen.schema(["topic"]).names == ["topic"]


PLACES = ("topics", "store_path", "snapshots", "start_offset", "end_offset", "options")


@pytest.mark.parametrize("name", PLACES)
def test_odd_values_are_taken_as_plain_ones_or_refused_by_name(name: str, folder: str) -> None:
    [judged] = [each for each in arguments_of(LogReads, LogReads.__init__) if each.name == name]
    plain: dict[str, Any] = {"topics": "T", "store_path": folder}
    values = {**plain, "start_offset": 1, "end_offset": 2}
    expected = LogReads(**plain | {name: values[name]}).options if name in values else None
    for odd in twins_of(values.get(name)):
        assert LogReads(**plain | {name: odd}).options == expected
    for odd in ODD:
        try:
            LogReads(**plain | {name: odd})
        except (SourceError, ValueError) as error:
            words = (name, name.removesuffix("s"), "storePath", "directory", "path")
            assert any(word in str(error) for word in words), (odd, error)
        else:
            assert odd is None or accepts(judged.annotation, odd), odd


def test_every_argument_of_a_read_is_judged() -> None:
    assert set(inspect.signature(read_wakelog).parameters) - {
        "trigger",
        "override_num_blocks",
        "ray_arguments",
    } == set(PLACES)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no place": ({}, "storePath is missing"),
    "backwards": ({"start_offset": 5, "end_offset": 4}, "start_offset 5 is above end_offset 4"),
    "from the end": ({"start_offset": "latest"}, "start_offset cannot be 'latest'"),
    "to the start": ({"end_offset": "earliest"}, "end_offset cannot be 'earliest'"),
    "over the wire": ({"options": {"nameServer": "h:9876"}}, "give store_path or snapshots"),
    "another table": ({"options": {"table": "damage"}}, "table is for Spark"),
    "a word that is none": ({"start_offset": "soon"}, "start_offset is 'soon': give 0 or above"),
    "a fraction": ({"end_offset": 1.5}, "end_offset is 1.5: give"),
    "a flag": ({"start_offset": True}, "start_offset is True: give"),
    "below zero": ({"start_offset": -3}, "start_offset is -3: give"),
    "of a queue": (
        {"start_offset": {"T": {0: "soon"}}},
        r"start_offset\['T'\]\[0\] is 'soon': give",
    ),
    "of a topic alone": ({"end_offset": {"T": 5}}, r"end_offset\['T'\] is 5: give queue ids"),
    "of a queue to its start": (
        {"end_offset": {"T": {1: "earliest"}}},
        r"end_offset\['T'\]\[1\] cannot be 'earliest'",
    ),
    "times backwards": (
        {"start_offset": moment(5), "end_offset": moment(4)},
        "start_offset .* is later than end_offset",
    ),
    "a place twice": ({"options": {"StorePath": "x"}}, "option StorePath says what an argument"),
    "a start twice": (
        {"start_offset": moment(5), "options": {"startingTimestamp": "1"}},
        "start_offset and an option say it both",
    ),
    "a time for a queue": (
        {"start_offset": {"T": {0: moment(5)}}},
        "give an offset|Give an offset",
    ),
    "topics twice": ({"options": {"Subscribe": "U"}}, "topics are the first argument"),
    "of a stream": ({"options": {"maxOffsetsPerTrigger": "1"}}, "for streams only"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_read(name: str, folder: str) -> None:
    arguments, message = WRONG[name]
    store_path = None if name in ("no place", "over the wire") else folder
    with pytest.raises((OptionError, ValueError), match=message):
        LogReads("T", store_path=store_path, **arguments)


def test_a_dataset_is_read_once(folder: str) -> None:
    with pytest.raises(ValueError, match="a Dataset is read once"):
        read_wakelog("T", store_path=folder, trigger="continuous")  # type: ignore[arg-type]


def test_without_ray_data_the_error_says_what_to_install(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(RayDataMissing, match=r"with its extra ray-data"):
        read_wakelog("T", store_path=folder)


def test_the_size_of_a_task_is_what_it_reads(log: LogBytes, folder: str) -> None:
    tasks = LogReads("T", store_path=folder).plan(2)
    assert sum(map(ray_data._size_bytes, tasks)) == log.end
