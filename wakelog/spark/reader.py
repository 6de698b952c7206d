"""Reads one task: ranges of files become record batches, or a list of damage.

A task can read on in a segment that 4.9.3 removes; wakelog's retention also truncates it. A segment
that is gone before the task opens it, or became shorter, is an error. With `fail_on_data_loss`
false it is skipped.

Invariants: one segment is open at a time; a task that runs again gives the same rows.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Final, NamedTuple

import pyarrow as pa

from wakelog.audit.changed_blocks import CHANGED, changed_in_range
from wakelog.spark.bounds import Selection, Topics
from wakelog.spark.errors import DataLost
from wakelog.spark.options import ReadOptions
from wakelog.spark.plan import ReadRange, Task
from wakelog.spark.query import PlannedTask
from wakelog.spark.records.bodiless_walk import BodilessWalk
from wakelog.spark.records.column_walk import (
    BUFFER_BYTES,
    FILE_ENDS,
    Damage,
    RecordWalk,
    RowOptions,
    Sound,
)
from wakelog.spark.records.rows import Rows, needs_bodies
from wakelog.spark.snapshots import explained
from wakelog.spark.stores import open_segment
from wakelog.storage.file_system import FileSystem

EVERY_MESSAGE: Final = Selection(Topics(include_system=True, include_retry=True, include_dlq=True))
_BODIES: Final = pa.schema([("body", pa.binary())])


class Found(NamedTuple):
    """Damage, with the file that has it."""

    broker: str
    path: str
    damage: Damage


def changed_blocks(fs: FileSystem, task: Task) -> Iterator[Found]:
    """Yield the blocks of a task's ranges that differ from the sums of their store."""
    for part in task:
        path, begin = part.segment.path, part.segment.begin
        with suppress(FileNotFoundError):  # `damage` has reported it
            for block in changed_in_range(fs, path, begin, part.begin, part.end):
                reason = f"in {block.end - block.begin} bytes {CHANGED}"
                yield Found(part.broker, path, Damage(block.begin, block.end, reason))


def read_task(
    options: ReadOptions,
    schema: pa.Schema,
    planned: PlannedTask,
    report: Callable[[Found], None] = lambda found: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task. Raises: DataLost.

    report: called with each damage.
    """
    fs = FileSystem()
    strict = options.fail_on_data_loss
    reader = TaskReader(
        fs, planned.selection, options.rows, fail_on_data_loss=strict, report=report
    )
    brokers = {part.broker for part in planned.task}
    snapshots = [each for each in options.snapshots if each.broker in brokers]
    return explained(fs, snapshots, reader.batches(planned.task, schema))


def read_damage(
    fs: FileSystem, task: Task, options: RowOptions, walk: RecordWalk | None = None
) -> Iterator[Found]:
    """Yield all damage of a task, of every topic and including bodies."""
    found: list[Found] = []
    options = options._replace(verify_crc=True)
    reader = TaskReader(
        fs, EVERY_MESSAGE, options, fail_on_data_loss=False, report=found.append, walk=walk
    )
    for _ in reader.batches(task, _BODIES):
        yield from found
        found.clear()
    yield from found


class TaskReader:
    """Reads tasks of one query one after another."""

    def __init__(
        self,
        fs: FileSystem,
        selection: Selection,
        options: RowOptions,
        *,
        fail_on_data_loss: bool = True,
        report: Callable[[Found], None] = lambda found: None,
        walk: RecordWalk | None = None,
    ) -> None:
        """Read nothing yet. report: called with each damage. walk: None for one that fits."""
        self._fs = fs
        self._selection = selection
        self._options = options
        self._fail_on_data_loss = fail_on_data_loss
        self._report = report
        self._walk = walk

    def batches(self, task: Task, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task. Raises: DataLost, OSError."""
        walk: RecordWalk | BodilessWalk
        if self._walk is not None:
            walk = self._walk
        elif needs_bodies(schema, self._options):
            walk = RecordWalk(buffer_bytes=min(self._options.batch_bytes, BUFFER_BYTES))
        else:
            walk = BodilessWalk()
        for part in task:
            options = self._options._replace(broker=part.broker)
            rows = Rows(walk, schema, self._selection, options)
            for step in self._steps(walk, part):
                if isinstance(step, Damage):
                    self._report(Found(part.broker, part.segment.path, step))
                    continue
                yield from rows.batches()
                for damage in rows.taken_damage():
                    self._report(Found(part.broker, part.segment.path, damage))

    def _steps(self, walk: RecordWalk | BodilessWalk, part: ReadRange) -> Iterator[Sound | Damage]:
        file = open_segment(self._fs, part.segment)
        if file is None:
            yield self._lost(part, Damage(part.begin, part.end, "the file was removed"))
            return
        with closing(file):
            for step in walk.steps(file, part.begin, part.end):
                if isinstance(step, Damage) and step.reason == FILE_ENDS:
                    self._lost(part, step)
                yield step

    def _lost(self, part: ReadRange, damage: Damage) -> Damage:
        if self._fail_on_data_loss:
            raise DataLost(
                f"{part.segment.path} of {part.broker}: {damage.reason} before the task read it, "
                f"from physical offset {damage.begin} to {damage.end}"
            )
        return damage
