"""A store's messages as a table, without a broker: what is read, in which types, and damage."""

import logging
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from tests.fakes.records import STORE_MS, LogBytes, properties
from tests.spark.logs import write_segments
from wakelog.client.errors import ClientError, InvalidArgument
from wakelog.frames import read_log, scan_log
from wakelog.spark.errors import DataLost, SourceError


@pytest.fixture
def log() -> LogBytes:
    """Return two queues of ten messages, stored a second after one another."""
    log = LogBytes(segment_bytes=1 << 12)
    for number in range(20):
        log.add(
            properties(TAGS="paid" if number % 3 else "sent", KEYS=f"k{number}"),
            queue_id=number % 2,
            queue_offset=number // 2,
            store_timestamp_ms=STORE_MS + 1000 * number,
            body=b"%d" % number,
        )
    return log


@pytest.fixture
def folder(log: LogBytes, tmp_path: Path) -> Path:
    return write_segments(tmp_path / "log", log)


def moment(number: int) -> datetime:
    return datetime.fromtimestamp(STORE_MS / 1000 + number, UTC)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, range(20)),
        ({"begin": 2, "end": 4}, range(4, 8)),
        ({"begin": moment(5), "end": moment(7)}, (5, 6)),
        ({"begin": {"T": {0: 8}}, "end": {"T": {1: 2}}}, (1, 3, 16, 18)),
        ({"tags": ["sent"], "end": 5}, (0, 3, 6, 9)),
        ({"tags": ["sent", "paid"], "begin": 9}, (18, 19)),
        ({"begin": 10}, ()),
    ],
)
def test_what_is_read(given: dict[str, Any], expected: Any, folder: Path) -> None:
    table = read_log(folder, "T", **given)
    assert list(map(int, table["body"].to_pylist())) == list(expected)


def test_columns_have_the_types_of_a_consumers_tables(folder: Path) -> None:
    table = read_log(folder, ["T"], columns=["storeTimestamp", "tags", "properties", "body"])
    kinds = [
        pyarrow.timestamp("ms", tz="UTC"),
        pyarrow.string(),
        pyarrow.map_(pyarrow.string(), pyarrow.string()),
        pyarrow.binary(),
    ]
    assert table.schema.types == kinds
    assert table["storeTimestamp"][3].as_py() == moment(3)
    assert table["properties"][3].as_py() == [("TAGS", "sent"), ("KEYS", "k3")]


def test_a_long_log_comes_batch_by_batch(folder: Path) -> None:
    with scan_log(folder, "T", columns=["queueOffset"]) as batches:
        assert sum(len(batch) for batch in batches) == 20


def test_damage_is_an_error_that_names_its_place(
    log: LogBytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin = log.add(queue_offset=10, body=b"lost")
    log.add(queue_offset=11, body=b"20")
    log.damage(begin + 90, b"L")
    folder = write_segments(tmp_path / "damaged", log)
    with pytest.raises(DataLost, match=f"offsets {begin} to .* CRC differs.* damaged='skip'"):
        read_log(folder, "T")
    with caplog.at_level(logging.WARNING, "wakelog.frames"):
        found = read_log(folder, "T", damaged="skip")["body"].to_pylist()
    assert sorted(map(int, found)) == [*range(21)]
    assert f"physical offsets {begin} to" in caplog.text


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"columns": ["bodi"]}, SourceError, "did you mean 'body'"),
        ({"columns": []}, InvalidArgument, "nothing would be read"),
        ({"damaged": "ignore"}, InvalidArgument, "'raise' or 'skip'"),
        ({"tags": "paid"}, InvalidArgument, "tags"),
        ({"begin": 5, "end": 4}, InvalidArgument, "begin 5 is above end 4"),
        ({"begin": "first"}, InvalidArgument, "begin is 'first'. Give 0 or above, 'earliest'"),
        ({"end": {"T": {0: datetime.max}}}, InvalidArgument, r"^end\['T'\]\[0\] is datetime"),
        ({"topics": ""}, InvalidArgument, "topic"),
    ],
)
def test_what_cannot_be_read_says_why(
    given: dict[str, Any], error: type[Exception], words: str, folder: Path
) -> None:
    with pytest.raises(error, match=words):
        read_log(folder, **({"topics": "T"} | given))


def test_what_is_not_there_is_no_matter_of_sparks_options(folder: Path) -> None:
    (folder.parent / "consumequeue" / "T").mkdir(parents=True)
    folder.rename(folder.parent / "commitlog")
    with pytest.raises(DataLost, match=r"topic 'absent' .* check the topics, and read from"):
        read_log(folder.parent, "absent")


def test_a_folder_without_a_log_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="commitlog"):
        read_log(tmp_path, "T")
    with pytest.raises(InvalidArgument, match="Give the directory of a broker's store"):
        read_log(None, "T")  # type: ignore[arg-type]


def test_without_pyarrow_it_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ClientError, match="pip install pyarrow"):
        read_log(folder, "T")


@pytest.mark.process
@pytest.mark.slow
def test_neither_spark_nor_ray_is_imported(folder: Path) -> None:
    program = f"""
import sys
from wakelog.frames import read_log
print(len(read_log({str(folder)!r}, "T")), *{{"pyspark", "ray"}} & set(sys.modules))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=True)
    assert done.stdout.split() == ["20"]
