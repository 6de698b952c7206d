"""Schemas, stores on the disk, and reads of them without Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.fakes.records import LogBytes
from wakelog.spark.bounds import Selection
from wakelog.spark.columns import KAFKA_COLUMNS, MESSAGE_COLUMNS
from wakelog.spark.options import ReadOptions, read_options
from wakelog.spark.plan import Limits, make_plan
from wakelog.spark.query import Query
from wakelog.spark.reader import EVERY_MESSAGE, Found, TaskReader
from wakelog.spark.records.column_walk import RecordWalk, RowOptions
from wakelog.spark.stores import StoreLog, open_store
from wakelog.storage.file_system import FileSystem
from wakelog.storage.paths import offset_name

FS = FileSystem()
TIME = pa.timestamp("us", tz="UTC")
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
ARROW_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "timestamp": TIME,
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "array<struct<key:string,value:binary>>": pa.list_(pa.field("element", HEADER)),
}
MESSAGES = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in MESSAGE_COLUMNS.items()])
KAFKA = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in KAFKA_COLUMNS.items()])
JSON = MESSAGES.set(10, pa.field("properties", pa.string()))

assert MESSAGES.names[10] == "properties"


def columns(*names: str) -> pa.Schema:
    """Return a schema of some of the message columns."""
    return pa.schema([MESSAGES.field(name) for name in names])


def write_segments(directory: Path, log: LogBytes) -> Path:
    """Write a log's segments, of full length, into a folder of their own; return the folder."""
    directory.mkdir(parents=True, exist_ok=True)
    for at in range(0, max(len(log.data), 1), log.segment_bytes):
        data = bytes(log.data[at : at + log.segment_bytes]).ljust(log.segment_bytes, b"\0")
        (directory / offset_name(log.begin + at)).write_bytes(data)
    return directory


def read_store(
    store: StoreLog,
    end: int,
    schema: pa.Schema = MESSAGES,
    *,
    selection: Selection = EVERY_MESSAGE,
    walk: RecordWalk | None = None,
    options: RowOptions | None = None,
) -> tuple[list[dict[str, Any]], list[Found]]:
    """Return all rows of a store up to `end`, and the damage that was reported."""
    plan = make_plan([(store, store.begin, end)], Limits(), lambda part, places: [])
    found: list[Found] = []
    reader = TaskReader(FS, selection, options or RowOptions(), report=found.append, walk=walk)
    batches = [batch for task in plan.tasks for batch in reader.batches(task, schema)]
    assert all(batch.schema.equals(schema) for batch in batches)
    return [row for batch in batches for row in rows_of(batch)], found


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return a batch's rows, its times as microseconds."""
    batch.validate(full=True)
    arrays = [x.cast(pa.int64()) if x.type == TIME else x for x in batch.columns]
    rows: list[dict[str, Any]] = pa.RecordBatch.from_arrays(
        arrays, names=batch.schema.names
    ).to_pylist()
    return rows


def read_folder(folder: Path, log: LogBytes, **values: Any) -> list[dict[str, Any]]:
    """Write a log, read it, and return the rows."""
    store = open_store(FS, str(write_segments(folder, log)), "b")
    return read_store(store, log.end, **values)[0]


def query_rows(
    schema: pa.Schema = MESSAGES, walk: RecordWalk | None = None, **options: str
) -> list[dict[str, Any]]:
    """Run a batch query as Spark would, and return its rows."""
    read = read_options(options)
    query = Query(read)
    views = query.views()
    selection = query.select(views)
    return [
        row
        for planned in query.plan(views, selection)
        for batch in task_reader(read, planned.selection, walk).batches(planned.task, schema)
        for row in rows_of(batch)
    ]


def task_reader(
    read: ReadOptions, selection: Selection, walk: RecordWalk | None = None
) -> TaskReader:
    """Return a reader as `source.py` makes it."""
    return TaskReader(
        FS, selection, RowOptions(), fail_on_data_loss=read.fail_on_data_loss, walk=walk
    )
