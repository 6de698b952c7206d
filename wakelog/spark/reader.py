"""Reads one task: ranges of files in, record batches out, or the damage that was met.

A segment that retention removes while a task reads it stays readable to that task. One that is gone
before the task opened it is an error, or passed over, as `fail_on_data_loss` says; the same holds
for a file that became shorter.

Invariants: one segment is open at a time; reading again gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from wakelog.spark.bounds import Selection, Topics
from wakelog.spark.errors import DataLost
from wakelog.spark.plan import ReadRange, Task
from wakelog.spark.records.record_walk import (
    BUFFER_BYTES,
    FILE_ENDS,
    RECORDS_MAX,
    Damage,
    RecordWalk,
    Sound,
)
from wakelog.spark.records.rows import RowOptions, Rows
from wakelog.spark.stores import OpenSegment
from wakelog.storage.file_system import FileSystem

EVERY_MESSAGE: Final = Selection(Topics(include_system=True, include_retry=True, include_dlq=True))
_BODIES: Final = pa.schema([("body", pa.binary())])


class Found(NamedTuple):
    """Damage that a task met, with the file it is in."""

    broker: str
    path: str
    damage: Damage


def make_walk(*, buffer_bytes: int = BUFFER_BYTES, records_max: int = RECORDS_MAX) -> RecordWalk:
    """Return a walk with compiled code; imports numba."""
    from wakelog.spark.records.walk_kernel import walk_records

    return RecordWalk(walk_records, buffer_bytes=buffer_bytes, records_max=records_max)


class TaskReader:
    """Reads tasks of one query, one after the other, over the same buffers."""

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
        """Allocate what a task needs; `report` is told of each damage."""
        self._fs = fs
        self._selection = selection
        self._options = options
        self._fail_on_data_loss = fail_on_data_loss
        self._report = report
        self._walk = walk or make_walk(buffer_bytes=min(options.batch_bytes, BUFFER_BYTES))

    def batches(self, task: Task, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task. Raises: DataLost, OSError."""
        for part in task:
            rows = self._rows(part, schema, self._selection, self._options)
            for step in self._steps(part):
                if isinstance(step, Damage):
                    self._report(Found(part.broker, part.segment.path, step))
                    continue
                yield from rows.batches()
                for damage in rows.taken_damage():
                    self._report(Found(part.broker, part.segment.path, damage))

    def damage(self, task: Task) -> Iterator[Found]:
        """Yield all damage of a task, bodies included, of whatever topic. Raises: DataLost."""
        options = self._options._replace(verify_crc=True)
        for part in task:
            rows = self._rows(part, _BODIES, EVERY_MESSAGE, options)
            for step in self._steps(part):
                found = [step] if isinstance(step, Damage) else []
                if not found:
                    for _ in rows.batches():
                        pass
                    found = rows.taken_damage()
                for damage in found:
                    yield Found(part.broker, part.segment.path, damage)

    def _rows(
        self, part: ReadRange, schema: pa.Schema, selection: Selection, options: RowOptions
    ) -> Rows:
        return Rows(self._walk, schema, selection, options._replace(broker=part.broker))

    def _steps(self, part: ReadRange) -> Iterator[Sound | Damage]:
        try:
            file = OpenSegment(self._fs, part.segment)
        except FileNotFoundError:
            yield self._lost(part, Damage(part.begin, part.end, "the file was removed"))
            return
        try:
            for step in self._walk.steps(file, part.begin, part.end):
                if isinstance(step, Damage) and step.reason == FILE_ENDS:
                    self._lost(part, step)
                yield step
        finally:
            file.close()

    def _lost(self, part: ReadRange, damage: Damage) -> Damage:
        if self._fail_on_data_loss:
            raise DataLost(
                f"{part.segment.path} of {part.broker}: {damage.reason} while it was to be read, "
                f"from physical offset {damage.begin} to {damage.end}"
            )
        return damage
