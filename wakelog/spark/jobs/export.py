"""Exports messages to Parquet files by topic and day; each run adds the new ones, each once.

    <target>/topic=T/day=2026-01-02/part-<batch>-<number>.parquet
    <target>/_wakelog/checkpoint/           how far each log was read, by Spark's stream
    <target>/_wakelog/settings.json         what is exported; later runs have to match it
    <target>/_wakelog/staged/<batch>/       files that are being written
    <target>/_wakelog/batches/<batch>.json  the names of a batch's files, when all are whole

    1  the checkpoint gets the bounds of a batch, so it is the same batch after a kill
    2  its files are written into the staged folder
    3  the list of their names is written: from here on the batch counts
    4  the files get their names, a step that can be repeated
    5  the checkpoint notes that the batch is done

A kill before step 3 costs the work, and a later one nothing. Readers of Parquet ignore names that
begin with an underscore.

Invariants:
- After a run each message is in exactly one named file; at no time is it in two.
- A named file is whole and never written again.
- One run at a time, because the checkpoint belongs to it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from os.path import abspath, join, relpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from wakelog.dispatchers.sync_files import sync_files
from wakelog.spark.columns import MESSAGE_COLUMNS, chosen_columns
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.run import explained
from wakelog.storage.file_system import FileSystem, replace_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER: Final = "_wakelog"
_LIST_NAME: Final = re.compile(r"([0-9]+)\.json")
BATCH_BYTES: Final = "4g"
"""Of each log in one batch, by default: the most that a kill makes a run repeat."""
DAY: Final = (
    "date_add(date'1970-01-01', cast(floor(unix_millis(storeTimestamp) / 86400000) as int))"
)
"""In UTC, whatever the session's time zone."""


_CHANGEABLE_OPTIONS: Final = frozenset(
    {
        "failondataloss", "maxbytespertrigger", "maxoffsetspertrigger", "minoffsetspertrigger",
        "maxtriggerdelay", "maxbytesperpartition", "maxrecordsperpartition", "minpartitions",
        "arrowbatchrows", "arrowbatchbytes",
    }
)  # fmt: skip
"""Options, in lower case, that do not change what is exported; each run may have others.

Otherwise an export could never go on after its log expired unread.
"""


class ExportReport(NamedTuple):
    """What a run added."""

    target: str
    batches_count: int
    files_count: int
    rows_count: int


class ExportState:
    """The folder `_wakelog`: staged files, batches that count, and the settings."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.folder = join(target, FOLDER)
        self.checkpoint = join(self.folder, "checkpoint")
        self.files_count = 0
        self.rows_count = 0
        self.batches_count = 0
        self._fs = FileSystem()

    def begin(self, settings: Mapping[str, object]) -> None:
        """Make the folder, or compare its settings with the given ones.

        A folder without a batch gets the new settings: the first ones may have been a mistake.
        Raises: JobFailed.
        """
        path = join(self.folder, "settings.json")
        wanted = _fixed_settings(json.loads(json.dumps(settings)))
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found = _fixed_settings(json.load(file))
            if found == wanted:
                return
            if self._listed():
                names = sorted(x for x in {*found, *wanted} if found.get(x) != wanted.get(x))
                raise JobFailed(
                    f"{self.target} is an export with another {', '.join(names)}: "
                    f"{', '.join(f'{name}={found.get(name)!r}' for name in names)}",
                    "ask for the same, or export into a new folder",
                )
            for name in ("checkpoint", "staged"):
                shutil.rmtree(join(self.folder, name), ignore_errors=True)
        else:
            if os.path.isdir(self.target) and os.listdir(self.target) not in ([], [FOLDER]):
                raise JobFailed(f"{self.target} is no export and not empty", "give a new folder")
            os.makedirs(join(self.folder, "batches"), exist_ok=True)
        self._write(path, wanted)

    def staged(self, batch: int) -> str:
        """Return the folder for a batch, without the files of an earlier attempt."""
        path = join(self.folder, "staged", str(batch))
        shutil.rmtree(path, ignore_errors=True)
        return path

    def is_whole(self, batch: int) -> bool:
        """Return whether a batch counts: its list is there."""
        return os.path.exists(self._list(batch))

    def list_files(self, batch: int) -> None:
        """Sync the staged files and write the list of their names: now the batch counts."""
        import pyarrow.parquet as pq

        staged = join(self.folder, "staged", str(batch))
        names: dict[str, str] = {}
        rows_count = 0
        paths = [str(path) for path in sorted(Path(staged).rglob("*.parquet"))]
        sync_files(self._fs, paths)
        for number, path in enumerate(paths):
            rows_count += int(pq.read_metadata(path).num_rows)
            folder = relpath(os.path.dirname(path), staged)
            names[relpath(path, staged)] = join(folder, f"part-{batch:08d}-{number:05d}.parquet")
        self._write(self._list(batch), {"files": names, "rows": rows_count})

    def name_files(self, batch: int) -> None:
        """Give a batch's files their names, where missing, and remove earlier lists."""
        with open(self._list(batch), encoding="utf-8") as file:
            found = json.load(file)
        staged = join(self.folder, "staged", str(batch))
        for source, name in found["files"].items():
            path = join(self.target, name)
            self._fs.make_directories(os.path.dirname(path))
            if os.path.exists(join(staged, source)):
                self._fs.rename(join(staged, source), path)
            self._fs.sync_directory(os.path.dirname(path))
        self.batches_count += 1
        self.files_count += len(found["files"])
        self.rows_count += found["rows"]
        shutil.rmtree(staged, ignore_errors=True)
        for number in self._listed():
            if number < batch:
                os.unlink(self._list(number))

    def _listed(self) -> list[int]:
        """Return the batches that have a list: none only if none ever counted."""
        names = os.listdir(join(self.folder, "batches"))
        return [int(match[1]) for match in map(_LIST_NAME.fullmatch, names) if match]

    def _list(self, batch: int) -> str:
        return join(self.folder, "batches", f"{batch}.json")

    def _write(self, path: str, value: object) -> None:
        unfinished = join(self.folder, "new." + os.path.basename(path))
        data = json.dumps(value, indent=1).encode()
        replace_file(self._fs, path, data, temporary_path=unfinished)


def export(
    spark: SparkSession,
    store_path: str,
    target: str,
    *,
    columns: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> ExportReport:
    """Export the messages that earlier runs did not.

    columns: all if empty. options: of the source, such as `topic` or `maxBytesPerTrigger`.
    Raises: JobFailed, OptionError.
    """
    state = ExportState(abspath(target))
    chosen = dict(options or {})
    columns = _chosen(columns, chosen)
    state.begin({"storePath": store_path, "columns": list(columns), "options": chosen})

    def write(batch: DataFrame, number: int) -> None:
        write_batch(state, batch, number, columns)

    reader = spark.readStream.format("rocketmq").option("startingOffsets", "earliest")
    if not any(name.lower() == "maxbytespertrigger" for name in chosen):
        reader = reader.option("maxBytesPerTrigger", BATCH_BYTES)
    if columns:
        needed = [*columns, *(x for x in ("topic", "storeTimestamp") if x not in columns)]
        reader = reader.option("columns", ",".join(needed))
    with explained():
        query = (
            reader.options(**chosen)
            .load(store_path)
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", state.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return ExportReport(state.target, state.batches_count, state.files_count, state.rows_count)


def write_batch(state: ExportState, batch: DataFrame, number: int, columns: Sequence[str]) -> None:
    """Write a batch, or finish one that already counts."""
    if not state.is_whole(number):
        path = state.staged(number)
        table = batch.selectExpr("*", f"{DAY} as day")
        if columns:
            table = table.select(*columns, *({"topic", "day"} - set(columns)))
        table.write.partitionBy("topic", "day").parquet(path)
        state.list_files(number)
    state.name_files(number)


def _chosen(columns: Sequence[str], options: Mapping[str, str]) -> list[str]:
    """Return the columns as the source spells them. Raises: JobFailed, OptionError."""
    for word, text in options.items():
        if word.lower() == "columns":
            raise JobFailed("an export has columns of its own", "name them in columns, not options")
        if word.lower() == "schemamode" and text.lower() != "rocketmq":
            raise JobFailed(
                f"an export has RocketMQ's columns, not those of {text}",
                "leave schemaMode out, and rename columns where they are read",
            )
    return list(chosen_columns(MESSAGE_COLUMNS, (name.strip() for name in columns)))


def _fixed_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings without the options that later runs may change."""
    options = settings.get("options", {})
    kept = {name: text for name, text in options.items() if name.lower() not in _CHANGEABLE_OPTIONS}
    return {**settings, "options": kept}


def topics_of(target: str) -> list[str]:
    """Return the topics of an export."""
    names = os.listdir(target) if os.path.isdir(target) else []
    return sorted(unquote(x.removeprefix("topic=")) for x in names if x.startswith("topic="))
