"""What Spark calls for the format "rocketmq": the source, its batch reader, and its writers.

For one query Spark creates the source in several processes of the driver, to get the schema and to
plan. It sends the reader and one partition to each task. So this module imports neither pyarrow nor
Ray, and a reader keeps only options and schema.

No reader has `pushFilters`: Spark 4.3 would share the filters of one use of a table with all others
(see `docs/spark.md`).

Invariants: the schema of the batches equals the schema that Spark derives for the table, because
Spark compares them. A task that runs again reads the same partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from wakelog.spark.columns import NULLABLE, chosen_columns
from wakelog.spark.errors import OptionError
from wakelog.spark.options import ReadOptions, check_use, read_options
from wakelog.spark.query import PlannedTask, Query
from wakelog.spark.tasks import read_damage, read_messages
from wakelog.spark.worker_memory import freeze

if TYPE_CHECKING:
    import pyarrow as pa

    from wakelog.spark.remote.query import PulledTask

NAME: Final = "rocketmq"


class RocketMQSource(DataSource):
    """The table: options become a schema, readers and writers."""

    @classmethod
    def name(cls) -> str:
        """Return the argument of `format`."""
        return NAME

    def schema(self) -> str:
        """Return the schema of the chosen columns, by default all. Raises: OptionError."""
        options = read_options(self.options)
        columns = options.column_types()
        chosen = chosen_columns(columns, options.columns or columns)
        return ", ".join(f"`{name}` {kind}" for name, kind in chosen.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query. Raises: OptionError."""
        options = read_options(self.options)
        check_use(self.options, stream=False)
        check_schema(options, schema)
        return LogReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream. Raises: OptionError."""
        options = read_options(self.options)
        check_use(self.options, stream=True)
        check_schema(options, schema)
        if options.remote is not None:
            from wakelog.spark.remote.stream import RemoteStreamReader

            return RemoteStreamReader(options, schema)
        from wakelog.spark.stream import LogStreamReader

        return LogStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a table. Raises: OptionError."""
        from wakelog.spark.sink.writer import BatchWriter, make_target

        return BatchWriter(make_target(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return the writer of a stream. Raises: OptionError."""
        from wakelog.spark.sink.writer import StreamWriter, make_target

        return StreamWriter(make_target(self.options, schema, overwrite=overwrite))


class LogReader(DataSourceReader):
    """Reads messages, or the damage in a log."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Read nothing yet."""
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Plan the query. Raises: SourceError."""
        tasks: list[PulledTask] | list[PlannedTask]
        if self._options.remote is not None:
            from wakelog.spark.remote.query import plan_query

            tasks = plan_query(self._options)
        else:
            query = Query(self._options, columns=self._schema.names)
            views = query.views()
            tasks = query.plan(views, query.select(views))
        freeze()
        return [InputPartition(planned) for planned in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task. Raises: DataLost, ClientError."""
        if self._options.remote is not None:
            from wakelog.spark.remote.reader import read_pulled

            return read_pulled(self._options, self._schema, partition.value)
        read = read_damage if self._options.table == "damage" else read_messages
        return read(self._options, self._schema, partition.value)


def check_schema(options: ReadOptions, schema: StructType) -> None:
    """Check the schema of a read, which a user may give. Raises: OptionError."""
    table = options.column_types()
    if not schema.fields:
        raise OptionError("the schema has no column; rows without any cannot be counted")
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise OptionError(f"column {twice[0]} is in the schema twice")
    for field in schema.fields:
        [name] = chosen_columns(table, [field.name])
        if name != field.name:
            raise OptionError(f"column {field.name} is spelled {name}")
        kind = field.dataType.simpleString()
        if table[name] != kind:
            raise OptionError(f"column {name} is of type {table[name]}, not {kind}")
        if name in NULLABLE and not field.nullable:
            raise OptionError(f"column {name} is null for a message without one: make it nullable")
