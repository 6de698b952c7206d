"""An audit finds each kind of damage where it was put, and nothing in what a real broker wrote."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.test_spark import run
from tests.dispatchers.test_golden_rebuild import config_of
from tests.fakes.logs import small_config
from tests.fakes.records import LogBytes, properties
from tests.golden_stores import open_golden
from tests.spark.jobs.runners import LocalRunner
from tests.spark.logs import write_segments
from wakelog.audit.findings import Severity
from wakelog.spark.jobs.audit import audit, verify_by
from wakelog.storage.config import StoreConfig


def damaged_log() -> LogBytes:
    log = LogBytes(8192)
    for place, unique in ((0, "a"), (1, "b"), (5, "c"), (5, "d"), (6, "a"), (7, "e")):
        log.add(properties(UNIQ_KEY=unique, KEYS="k"), queue_offset=place, body=b"a body")
    log.add(properties(UNIQ_KEY="a"), topic="Other", body=b"of its own")
    log.add(properties(UNIQ_KEY="a"), topic="%RETRY%G", body=b"once more")
    log.damage(log.offsets[1] + 88, b"X")
    log.damage(log.offsets[5] + 4, b"\0")
    return log


def log_alone(folder: Path) -> StoreConfig:
    return small_config(
        store_path_root=str(folder), store_path_commit_log=str(folder), commit_log_file_bytes=8192
    )


@pytest.mark.spark
@pytest.mark.slow
def test_each_kind_of_damage_is_found(spark: SparkSession, tmp_path: Path) -> None:
    log = damaged_log()
    folder = write_segments(tmp_path / "log", log)
    rows = audit(spark, log_alone(folder)).collect()
    found = {
        (row.kind, row.topic, row.queueOffset, row.physicalOffset, row.affected) for row in rows
    }
    places = log.offsets
    assert found == {
        ("body", "T", 1, places[1], places[2] - places[1]),
        ("record", None, None, places[5], places[6] - places[5]),
        ("place", "T", 2, places[2], 3),
        ("place", "T", 5, places[3], 1),
        ("duplicate", "T", None, places[0], 2),
    }
    assert {row.severity for row in rows if row.kind in ("place", "duplicate")} == {"notice"}


@pytest.mark.spark
@pytest.mark.slow
def test_a_queue_offset_may_be_any_number_at_all(spark: SparkSession, tmp_path: Path) -> None:
    """No CRC covers it, and the distance from one end of a long to the other is in no long."""
    log = LogBytes(8192)
    least, most = -(1 << 63), (1 << 63) - 1
    for place in (0, most, least, 2, most):
        log.add(queue_offset=place)
    rows = audit(spark, log_alone(write_segments(tmp_path / "log", log))).collect()
    found = {(row.kind, row.queueOffset, row.physicalOffset, row.affected) for row in rows}
    places = log.offsets
    assert found == {
        ("place", least + 1, places[0], most),
        ("place", 1, places[3], 1),
        ("place", 3, places[1], most - 3),
        ("place", most, places[4], 1),
    }


@pytest.mark.golden
@pytest.mark.spark
@pytest.mark.slow
def test_what_a_real_broker_wrote_is_sound(spark: SparkSession, tmp_path: Path) -> None:
    store, manifest = open_golden("delay_tx_retry", tmp_path)
    assert audit(spark, config_of(manifest, store), scratch=str(tmp_path)).collect() == []
    assert [path.name for path in tmp_path.iterdir()] == [store.name]


@pytest.mark.golden
def test_queues_and_index_are_held_against_the_log(tmp_path: Path) -> None:
    store, manifest = open_golden("crash_lost_cq", tmp_path)
    config = config_of(manifest, store)
    found = verify_by(LocalRunner(), config, str(tmp_path))
    assert {finding.kind for finding in found} == {"queue", "index"}
    assert found[0][3:] == ("no entry", 1881, "CrashTopic", 0, 0, 44)
    assert [path.name for path in tmp_path.iterdir()] == [store.name]


@pytest.mark.golden
def test_a_segment_of_a_wrong_length_is_a_finding(tmp_path: Path) -> None:
    store, manifest = open_golden("basic", tmp_path)
    segment = min((store / "commitlog").iterdir())
    segment.write_bytes(segment.read_bytes()[:-1])
    [found, *_] = verify_by(LocalRunner(), config_of(manifest, store), None)
    assert found[:3] == (Severity.DAMAGE, "file", str(segment))


@pytest.mark.spark
@pytest.mark.slow
def test_the_exit_code_states_whether_there_is_damage(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_segments(tmp_path / "log", damaged_log())
    assert run("audit", "--store", str(folder)) == 1
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "damaged: 2 findings of damage, 3 notices"
    log = LogBytes(4096)
    for i in range(3):
        log.add(properties(UNIQ_KEY="twice"), queue_offset=i)
    folder = write_segments(tmp_path / "sound", log)
    assert run("audit", "--store", str(folder), "-o", "json") == 0
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["reason"] == "unique key twice"
