"""The rebuild as a job: equal to a real broker's files, and to Reput's on a log of some size."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tests.cli.test_log import queues
from tests.cli.test_spark import run
from tests.dispatchers.test_golden_rebuild import COPIED, config_of, index_files, queue_files
from tests.fakes.logs import small_config
from tests.fakes.records import LogBytes, properties, record
from tests.golden_stores import open_golden, read_manifest
from tests.spark.jobs.runners import LocalRunner
from tests.spark.logs import write_segments
from wakelog.audit.rebuild import UNFINISHED, LogReport, Rebuild, run_rebuild
from wakelog.protocol.record import encode_blank
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.rebuild import PARTS, rebuild, rebuild_by
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import DamagedStore
from wakelog.storage.file_system import FileSystem

NOW_MS = 1_700_000_000_000
SEGMENT_BYTES = 64 << 20
SEGMENTS = [4, pytest.param(16, marks=pytest.mark.long)]


@pytest.fixture(autouse=True)
def any_log_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks scan small logs too."""
    monkeypatch.setattr("wakelog.spark.jobs.rebuild.TASKS_LOG_BYTES_MIN", 0)


def files_of(root: Path) -> tuple[dict[str, bytes], list[bytes]]:
    return queue_files(root), index_files(root) if (root / "index").exists() else []


@pytest.mark.golden
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [COPIED[0], *(pytest.param(name, marks=pytest.mark.long) for name in COPIED[1:])]
)
def test_a_copied_log_gives_what_the_real_broker_made(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    store, manifest = open_golden(name, tmp_path)
    expected, _ = open_golden(name, tmp_path, archive="rebuilt")
    report = rebuild(spark, config_of(manifest, store), str(tmp_path / "new"))
    assert files_of(tmp_path / "new") == files_of(expected)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["consumequeue", "index"]
    assert not (tmp_path / ("new" + UNFINISHED)).exists()
    assert report.records_count == len(read_manifest(manifest["sourceFixture"])["messages"])
    assert report.bad_stretches_count == report.size_mismatches_count == 0


def write_large_log(folder: Path, segments: int) -> StoreConfig:
    """Write segments of messages of 1 KiB with two keys to 3 topics of 4 queues."""
    template = record(0, properties(KEYS="k0000000", UNIQ_KEY="U" * 32), body=bytes(800))
    size = len(template)
    keys = template.index(b"k0000000"), template.index(b"U" * 32)
    folder.mkdir()
    offsets = [0] * 12
    number = 0
    for segment in range(segments):
        count = (SEGMENT_BYTES - 8) // size
        data = np.tile(np.frombuffer(template, dtype=np.uint8), count).tobytes()
        buffer = bytearray(data)
        for i in range(count):
            at, queue = i * size, number * 7 % 13 % 12
            physical_offset = segment * SEGMENT_BYTES + at
            struct.pack_into(">i", buffer, at + 12, queue % 4)
            struct.pack_into(">qq", buffer, at + 20, offsets[queue], physical_offset)
            buffer[at + keys[0] + 1 : at + keys[0] + 8] = b"%07d" % (number % 70_001)
            buffer[at + keys[1] : at + keys[1] + 32] = b"%032d" % number
            buffer[at + 88 + 800 + 1] = b"ABC"[queue // 4]
            struct.pack_into(">q", buffer, at + 56, NOW_MS + number)
            offsets[queue] += 1
            number += 1
        blank = encode_blank(SEGMENT_BYTES - len(buffer))
        path = folder / f"{segment * SEGMENT_BYTES:020d}"
        path.write_bytes(bytes(buffer + blank).ljust(SEGMENT_BYTES, b"\0"))
    return StoreConfig(
        store_path_root=str(folder),
        store_path_commit_log=str(folder),
        commit_log_file_bytes=SEGMENT_BYTES,
        index_slot_count=50_000,
        index_entry_count=200_000,
    )


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("segments", SEGMENTS)
def test_a_log_of_some_size_gives_what_reput_makes(
    segments: int, spark: SparkSession, tmp_path: Path
) -> None:
    config = write_large_log(tmp_path / "log", segments)
    (tmp_path / "ordered").mkdir()
    expected = run_rebuild(Rebuild(FileSystem(), config, str(tmp_path / "ordered")))
    report = rebuild(spark, config, str(tmp_path / "new"))
    assert (report.begin, report.end) == (expected.begin, expected.end)
    assert report.records_count == expected.records_count > 250_000
    assert report.queues_count == 12 and report.index_files_count > 2
    assert report.keys_count == 2 * report.records_count
    assert files_of(tmp_path / "new") == files_of(tmp_path / "ordered")


def small_log() -> LogBytes:
    log = LogBytes(4096)
    for i in range(90):
        log.add(
            properties(KEYS=f"k{i}", UNIQ_KEY=f"u{i}"),
            topic="AB"[i % 2],
            queue_id=i % 3,
            queue_offset=i // 6,
        )
    return log


def small(tmp_path: Path, **values: Any) -> StoreConfig:
    folder = write_segments(tmp_path / "log", small_log())
    return small_config(
        store_path_root=str(folder),
        store_path_commit_log=str(folder),
        index_slot_count=20,
        index_entry_count=50,
        **values,
    )


def run_small(tmp_path: Path, name: str, **runner: int) -> tuple[LogReport, Path]:
    target = tmp_path / name
    config = small(tmp_path)
    return rebuild_by(LocalRunner(**runner), config, str(target)), target


def test_tasks_that_run_twice_give_the_same(tmp_path: Path) -> None:
    once, first = run_small(tmp_path, "once", twice=1000)
    twice, second = run_small(tmp_path, "twice")
    assert once == twice
    assert files_of(first) == files_of(second)
    assert len(queues(first)) == 6 and once.index_files_count == 4


def test_a_rebuild_that_was_killed_is_begun_again(tmp_path: Path) -> None:
    class Killed(LocalRunner):
        def __call__(self, work: Any, items: Any) -> Any:
            super().__call__(work, items[:2])
            raise KeyboardInterrupt

    config = small(tmp_path)
    target = tmp_path / "new"
    with pytest.raises(KeyboardInterrupt):
        rebuild_by(Killed(), config, str(target))
    assert not target.exists() and not (tmp_path / ("new" + UNFINISHED)).exists()
    for left in (UNFINISHED, PARTS):  # by a process that was killed outright
        (tmp_path / f"new{left}" / "consumequeue").mkdir(parents=True)
    target.mkdir()  # an empty folder is as good as none
    rebuild_by(LocalRunner(), config, str(target))
    _, expected = run_small(tmp_path, "expected")
    assert files_of(target) == files_of(expected)
    assert not list(tmp_path.glob("new.*"))


def test_a_target_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").touch()
    with pytest.raises(JobFailed, match=r"new is not empty; give a new folder"):
        run_small(tmp_path, "new")
    with pytest.raises(JobFailed, match=r"mine is no folder; give a new one"):
        run_small(tmp_path, "new/mine")
    assert os.listdir(tmp_path / "new") == ["mine"]


def test_damage_is_reported_and_a_tail_is_none(tmp_path: Path) -> None:
    config = small(tmp_path)
    log = small_log()
    log.damage(log.offsets[3] + 4, b"\0")
    write_segments(tmp_path / "log", log)
    report = rebuild_by(LocalRunner(), config, str(tmp_path / "new"))
    assert (report.records_count, report.bad_stretches_count, report.end) == (89, 1, log.end)
    assert report.bad_stretches[0][:2] == (log.offsets[3], log.offsets[4])


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        (4096, None, "has no file for physical offset 4096.*copy the segments that are missing"),
        (8192, 100, "is shorter than 4096 bytes; copy it whole"),
        (0, 100, "its length is 100, configured are 4096"),
    ],
)
def test_a_log_that_is_not_whole_is_refused(
    name: int, size: int | None, message: str, tmp_path: Path
) -> None:
    config = small(tmp_path)
    path = tmp_path / "log" / f"{name:020d}"
    if size is None:
        path.unlink()
    else:
        os.truncate(path, size)
    with pytest.raises((JobFailed, DamagedStore), match=message):
        rebuild_by(LocalRunner(), config, str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    empty = small_config(store_path_root=str(tmp_path), store_path_commit_log=str(tmp_path / "e"))
    with pytest.raises(JobFailed, match="holds no segment of a log"):
        rebuild_by(LocalRunner(), empty, str(tmp_path / "new"))


@pytest.mark.spark
@pytest.mark.slow
def test_the_command(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = small_log()
    log.damage(log.offsets[3] + 4, b"\0")
    folder = write_segments(tmp_path / "log", log)
    words = ["rebuild", "--store", str(folder), "--set", "maxHashSlotNum=20"]
    words += ["--set", "maxIndexNum=50", "--into"]
    assert run(*words, str(tmp_path / "new")) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"passed over  {log.offsets[3]} to {log.offsets[4]}: magic 0x00a320a7",
        f"rebuilt: 89 records from 0 to {log.end}, 6 queues, 178 keys in 4 files",
    ]
    assert run(*words, str(tmp_path / "other"), "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["badStretches"][0][0] == log.offsets[3]
    assert files_of(tmp_path / "new") == files_of(tmp_path / "other")
    assert run(*words, str(tmp_path / "new")) == 1
    assert "new is not empty. Give a new folder." in capsys.readouterr().err
    assert spark.range(1).count() == 1  # a session that was there is left alone
