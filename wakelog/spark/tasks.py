"""Runs one Spark task over files: its part of a plan becomes rows, or rows of `table=damage`.

It imports NumPy and pyarrow in the task, and not in the processes that plan.

Invariants: Spark's own partition for an empty plan has no rows; the task's log names the parts that
were skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from wakelog.spark.columns import DAMAGE_COLUMNS
from wakelog.spark.options import ReadOptions
from wakelog.spark.query import PlannedTask
from wakelog.spark.worker_memory import freeze_after

if TYPE_CHECKING:
    import pyarrow as pa

    from wakelog.spark.reader import Found

_LOGGER: Final = logging.getLogger(__name__)


def read_messages(
    options: ReadOptions, schema: StructType, planned: PlannedTask | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task, for a batch or a stream. Raises: DataLost.

    planned: None for Spark's own partition of an empty plan.
    """
    if planned is None:
        return iter(())
    from wakelog.spark.reader import read_task

    return freeze_after(read_task(options, arrow_schema(schema), planned, _warn))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema that Spark compares with the first batch."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def _warn(found: Found) -> None:
    """Log a skipped part; `table=damage` has all of them as rows."""
    damage = found.damage
    _LOGGER.warning(
        "%s of %s: physical offsets %d to %d have no readable message: %s",
        found.path,
        found.broker,
        damage.begin,
        damage.end,
        damage.reason,
    )


def read_damage(
    options: ReadOptions, schema: StructType, planned: PlannedTask | None
) -> Iterator[pa.RecordBatch]:
    """Yield the damage of one task; the first task has the gaps of the plan."""
    if planned is None:
        return
    import pyarrow as pa

    from wakelog.spark import reader
    from wakelog.storage.file_system import FileSystem

    fs, task, kind = FileSystem(), planned.task, arrow_schema(schema)
    gaps = [reader.Found(broker, "", damage) for broker, damage in planned.gaps]
    damaged = reader.read_damage(fs, task, options.rows)
    for found in (*gaps, *damaged, *reader.changed_blocks(fs, task)):
        values = (found.broker, found.path, *found.damage)
        row = dict(zip(DAMAGE_COLUMNS, values, strict=True))
        yield pa.RecordBatch.from_pylist([{name: row[name] for name in kind.names}], schema=kind)
