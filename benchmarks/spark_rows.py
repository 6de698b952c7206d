"""The row-by-row way to read a log from Spark, which the scan is held against.

A Python data source as one would write it first. It reads a segment, decodes each record by the
project's own codec, and yields a tuple of Python values with all columns. It plans its tasks as the
real source does, and reads the first of them only: all of them would take minutes.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from wakelog.protocol.message_id import create_message_id
from wakelog.protocol.properties import decode_properties
from wakelog.protocol.record import (
    MAGIC_OFFSET,
    MESSAGE_MAGIC,
    MessageRecord,
    decode_record,
)
from wakelog.spark.columns import MESSAGE_COLUMNS
from wakelog.spark.options import read_options
from wakelog.spark.plan import ReadRange
from wakelog.spark.query import Query

TASKS_COUNT = 2
"""Of 128 MiB each, one for each core."""


class RowSource(DataSource):
    """`format("rocketmq-rows")` over a store directory."""

    @classmethod
    def name(cls) -> str:
        """Return the word for `format`."""
        return "rocketmq-rows"

    def schema(self) -> str:
        """Return all columns of the real source."""
        return ", ".join(f"`{name}` {kind}" for name, kind in MESSAGE_COLUMNS.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        return RowReader(str(self.options["path"]))


class RowPartition(InputPartition):
    """One task: a range of a segment that begins and ends between two records."""

    def __init__(self, part: ReadRange) -> None:
        """Keep it as the partition's value."""
        super().__init__(part)
        self.part = part


class RowReader(DataSourceReader):
    """Decodes record by record."""

    def __init__(self, path: str) -> None:
        """Keep the store's path."""
        self._path = path

    def partitions(self) -> list[InputPartition]:
        """Return the first tasks that the real source would plan."""
        query = Query(read_options({"storePath": self._path}))
        views = query.views()
        tasks = query.plan(views, query.select(views))
        return [RowPartition(part) for planned in islice(tasks, TASKS_COUNT) for part in planned[0]]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield a tuple for each record."""
        assert isinstance(partition, RowPartition)
        part = partition.part
        with open(part.segment.path, "rb") as file:
            file.seek(part.begin - part.segment.begin)
            data = file.read(part.end - part.begin)
        at = 0
        while int.from_bytes(data[at + MAGIC_OFFSET : at + MAGIC_OFFSET + 4], signed=True) == (
            MESSAGE_MAGIC
        ):
            record = decode_record(data, at)
            yield row_of(record, part.broker)
            at += record.size_bytes


def row_of(record: MessageRecord, broker: str) -> tuple[Any, ...]:
    """Return the columns of one record, in the order of `MESSAGE_COLUMNS`."""
    properties = decode_properties(record.properties_text)
    offset_id = create_message_id(*record.store_host, record.physical_offset)
    return (
        record.topic,
        broker,
        record.queue_id,
        record.queue_offset,
        properties.get("UNIQ_KEY", offset_id),
        offset_id,
        properties.get("TAGS"),
        properties.get("KEYS"),
        record.flag,
        record.body,
        properties,
        datetime.fromtimestamp(record.born_timestamp_ms / 1000, UTC),
        datetime.fromtimestamp(record.store_timestamp_ms / 1000, UTC),
        "{}:{}".format(*record.born_host),
        "{}:{}".format(*record.store_host),
        record.physical_offset,
        record.size_bytes,
        record.sys_flag,
        record.body_crc,
        record.reconsume_times,
        record.prepared_transaction_offset,
    )
