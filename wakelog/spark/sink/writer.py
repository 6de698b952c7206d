"""What Spark calls for `df.write.format("rocketmq")` and `writeStream`.

The driver checks options and columns. Each task sends its rows and returns their count. The
properties of Spark's job give a task the id of the stream and the number of the batch. The id of a
batch write is the option `queryId`, or is made once.

Invariants: `write` returns only after every row of its partition was acknowledged. Messages of a
failed task stay sent; the next attempt sends them with the same keys.

Source: Spark's StreamExecution and MicroBatchExecution name the properties.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from wakelog.client.errors import InvalidArgument, NotAcknowledged
from wakelog.client.messages import pack
from wakelog.client.sender import Sender
from wakelog.network.client import make_client
from wakelog.spark.errors import OptionError, in_words_of_spark
from wakelog.spark.sink.options import WriteOptions, check_columns, read_write_options
from wakelog.spark.sink.rows import read_messages
from wakelog.spark.sink.unique_keys import UniqueKeys, WrittenPart

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"
REPEATED: Final = (
    "Messages that were acknowledged before are stored; a repeated write gives each message the "
    "unique key that it had"
)


@dataclass
class Written(WriterCommitMessage):
    """The result of a task whose rows are all stored."""

    rows_count: int


class _Target(NamedTuple):
    """The part of a write that all tasks share."""

    options: WriteOptions
    columns: tuple[str, ...]

    def write(self, batches: Iterator[pa.RecordBatch], part: WrittenPart) -> Written:
        """Send all rows of a partition. Raises: RowRefused, NotAcknowledged."""
        with in_words_of_spark():
            return Written(asyncio.run(self._write(batches, part)))

    async def _write(self, batches: Iterator[pa.RecordBatch], part: WrittenPart) -> int:
        options, keys, rows_count = self.options, UniqueKeys(part), 0
        client = make_client(options.client.credentials, options.client.tls)
        try:
            producer = Sender(client, options.client, first_queue=part.partition)
            for batch in batches:
                messages = read_messages(batch, self.columns, options.topic, keys, rows_count)
                lanes = pack(
                    messages, bytes_max=options.batch_bytes_max, rows_max=options.batch_rows_max
                )
                await producer.send_all(lanes)
                rows_count += len(messages)
        except (NotAcknowledged, InvalidArgument) as error:  # other rows may be stored
            raise NotAcknowledged(error.cause, f"{error.remedy}. {REPEATED}") from error
        finally:
            await client.close()
        return rows_count


class BatchWriter(DataSourceArrowWriter):
    """Writes a table."""

    def __init__(self, target: _Target) -> None:
        """Give the write an id, which all attempts of its tasks share."""
        self._target = target
        self._query = target.options.query or str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of a task. Raises: RowRefused, NotAcknowledged."""
        return self._target.write(iterator, WrittenPart(self._query, 0, _context().partitionId()))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Check that every task succeeded. Raises: NotAcknowledged."""
        _check(messages)


@dataclass
class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    target: _Target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of a task of one batch. Raises: RowRefused, NotAcknowledged."""
        context = _context()
        query = context.getLocalProperty(QUERY_PROPERTY)
        batch = context.getLocalProperty(BATCH_PROPERTY)
        assert query is not None and batch is not None, "Spark gives both to every stream's tasks"
        return self.target.write(iterator, WrittenPart(query, int(batch), context.partitionId()))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Check that every task succeeded. Raises: NotAcknowledged."""
        _check(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: stored messages stay, and are sent again with the same keys."""


def make_target(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> _Target:
    """Check options and columns of a write. Raises: OptionError."""
    if overwrite:
        raise OptionError(
            "a log can only be appended to: use mode append (a stream: outputMode append)"
        )
    read = read_write_options(options)
    columns = {field.name: field.dataType.simpleString() for field in schema.fields}
    return _Target(read, check_columns(columns, read))


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "only tasks write"
    return context


def _check(messages: Sequence[WriterCommitMessage | None]) -> None:
    missing = sum(message is None for message in messages)
    if missing:
        raise NotAcknowledged(f"{missing} tasks did not report their rows as stored", "Write again")
