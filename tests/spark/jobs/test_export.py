"""An export goes on where the last one ended, and a kill at any of its steps costs no row."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.cli.test_spark import run
from tests.fakes.records import STORE_MS, LogBytes
from tests.spark.logs import write_segments
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.export import FOLDER, ExportState, export, topics_of
from wakelog.storage.file_system import FileSystem

DAY_MS = 86_400_000
SEGMENT_BYTES = 1 << 16


def log_of(count: int) -> LogBytes:
    log = LogBytes(SEGMENT_BYTES)
    for i in range(count):
        log.add(
            topic="AB"[i % 2],
            queue_offset=i // 2,
            store_timestamp_ms=STORE_MS + DAY_MS * (i // 10),
            body=b"%d" % i,
        )
    return log


def exported(target: Path) -> list[str]:
    """Return the bodies of all named files, read without Spark."""
    paths = [path for path in sorted(target.rglob("*.parquet")) if FOLDER not in path.parts]
    return sorted(
        body.decode() for path in paths for body in pq.read_table(path)["body"].to_pylist()
    )


def bodies(count: int) -> list[str]:
    return sorted(str(i) for i in range(count))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_runs_add_what_is_new_and_a_killed_one_is_gone_on_with(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, target = tmp_path / "log", tmp_path / "out"
    write_segments(folder, log_of(20))
    first = export(spark, str(folder), str(target))
    assert (first.batches_count, first.rows_count) == (1, 20)
    assert exported(target) == bodies(20) and topics_of(str(target)) == ["A", "B"]
    assert len(list(target.glob("topic=*/day=*"))) == first.files_count == 4

    write_segments(folder, log_of(30))
    renamed: list[str] = []

    def killed_at_the_second_file(fs: FileSystem, source: str, name: str) -> None:
        renamed.append(name)
        if len(renamed) == 3:  # the first is the list of the files
            raise RuntimeError("killed")
        os.rename(source, name)

    with monkeypatch.context() as patch:
        patch.setattr(FileSystem, "rename", killed_at_the_second_file)
        with pytest.raises(JobFailed, match="RuntimeError: killed"):
            export(spark, str(folder), str(target))
    assert len(exported(target)) == 25

    with monkeypatch.context() as patch:
        patch.setattr(ExportState, "name_files", lambda self, batch: 1 / 0)
        with pytest.raises(JobFailed):
            export(spark, str(folder), str(target))
    write_segments(folder, log_of(41))
    again = export(spark, str(folder), str(target))
    assert (again.batches_count, again.rows_count) == (2, 21)
    assert exported(target) == bodies(41)
    assert export(spark, str(folder), str(target))[1:] == (0, 0, 0)
    assert spark.read.parquet(str(target)).where("topic = 'B'").count() == 20


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_kill_before_the_list_costs_the_work_alone(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, target = tmp_path / "log", tmp_path / "out"
    write_segments(folder, log_of(12))
    words = [
        "export",
        "--store",
        str(folder),
        "--into",
        str(target),
        "--columns",
        "Body, queueoffset",
    ]
    with monkeypatch.context() as patch:
        patch.setattr(ExportState, "list_files", lambda self, batch: 1 / 0)
        assert run(*words) == 1
    assert exported(target) == [] and list((target / FOLDER / "staged").rglob("*.parquet"))
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert run(*words) == 0
    assert capsys.readouterr().out == f"exported: 12 rows in 4 files of 1 batches into {target}\n"
    assert exported(target) == bodies(12)
    [schema] = {str(pq.read_schema(path).names) for path in target.glob("topic=*/*/*.parquet")}
    assert schema == "['body', 'queueOffset']"
    assert run(*words, "--option", "topic=A") == 1
    assert "is an export with another options" in capsys.readouterr().err
    other = [*words[:4], str(tmp_path / "other"), "--option", "topik=A"]
    assert run(*other) == 1
    assert "no option 'topik', did you mean 'topic'?" in capsys.readouterr().err


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(JobFailed, match="is no export and not empty; give a new folder"):
        ExportState(str(tmp_path)).begin({})


def test_a_later_run_may_read_otherwise_but_nothing_else(tmp_path: Path) -> None:
    settings = {"storePath": "s", "columns": [], "options": {"topic": "A", "minPartitions": "2"}}
    state = ExportState(str(tmp_path))
    state.begin(settings)
    state.list_files(0)
    settings["options"] = {"topic": "A", "FAILONDATALOSS": "false", "maxBytesPerTrigger": "1g"}
    ExportState(str(tmp_path)).begin(settings)
    for other in ({"topic": "B"}, {}, {"topic": "A", "subExpression": "x"}):
        with pytest.raises(JobFailed, match="is an export with another options"):
            ExportState(str(tmp_path)).begin({**settings, "options": other})


def test_what_has_nothing_yet_may_be_requested_otherwise(tmp_path: Path) -> None:
    state = ExportState(str(tmp_path))
    state.begin({"storePath": "mistyped"})
    Path(state.checkpoint).mkdir()
    Path(state.staged(0)).mkdir(parents=True)
    state.begin({"storePath": "right"})
    assert not Path(state.checkpoint).exists() and not Path(state.folder, "staged").exists()
    Path(state.checkpoint).mkdir()
    state.begin({"storePath": "right"})
    assert Path(state.checkpoint).exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"schemaMode": "kafka"}, "not those of kafka; leave schemaMode out"),
        ({"Columns": "body"}, "name them in columns, not options"),
    ],
)
def test_options_that_an_export_cannot_have(
    options: dict[str, str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(JobFailed, match=words):
        export(None, "/store", str(tmp_path / "out"), options=options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_files_get_their_names_however_often_it_is_tried(tmp_path: Path) -> None:
    state = ExportState(str(tmp_path / "out"))
    state.begin({"columns": []})
    staged = Path(state.staged(3), "topic=%25R", "day=2026-01-02")
    staged.mkdir(parents=True)
    pq.write_table(pa.table({"body": [b"x", b"y"]}), staged / "a.parquet")
    assert not state.is_whole(3)
    state.list_files(3)
    assert state.is_whole(3) and exported(tmp_path / "out") == []
    state.name_files(3)
    state.name_files(3)
    assert exported(tmp_path / "out") == ["x", "y"] and topics_of(state.target) == ["%R"]
    assert state.rows_count == 4  # of both calls
    assert not Path(state.folder, "staged", "3").exists()


def test_what_others_leave_in_its_folder_is_none_of_its_lists(tmp_path: Path) -> None:
    """Network file systems and people do that."""
    state = ExportState(str(tmp_path / "out"))
    state.begin({"columns": []})
    lists = Path(state.folder, "batches")
    others = {".nfs0000012", "notes.txt", "1.json.orig"}
    for name in others:
        (lists / name).touch()
    state.begin({"columns": ["body"]})  # nothing counts yet, so this may change
    for batch in range(3):
        Path(state.staged(batch)).mkdir(parents=True)
        state.list_files(batch)
        state.name_files(batch)
    assert {path.name for path in lists.iterdir()} == {"2.json", *others}
