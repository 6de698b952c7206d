"""`read_wakelog`: a log's messages as a Ray Dataset, in the manner of `ray.data.read_kafka`.

The same plan, reader and columns as Spark's source, over a store's files or a broker's snapshot;
each task of the plan is a read task of Ray's, and each of its record batches a block. Ray says
which columns are wanted, so nothing else is made.

Ray Data needs more than Ray: `pip install 'wakelog[ray-data]'`.

Invariants: a bounded read, whose end is found once however often Ray asks for tasks; a task repeats
without a difference, so that Ray may run it again.

Source: ray.data.read_kafka (2.60) for names and meaning of the arguments.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from wakelog.spark.bounds import EVERYTHING, Bounds, Selection
from wakelog.spark.columns import chosen_columns
from wakelog.spark.errors import OptionError, SourceError
from wakelog.spark.handoff import snapshot_text
from wakelog.spark.options import ReadOptions, check_use, read_options
from wakelog.spark.positions import EARLIEST_OFFSET, LATEST_OFFSET
from wakelog.spark.query import PlannedTask, Query, row_options
from wakelog.spark.records.arrow_types import arrow_schema_of
from wakelog.spark.snapshots import explained
from wakelog.spark.starts import read_bounds
from wakelog.storage.file_system import RealFileSystem

if TYPE_CHECKING:
    from ray.data import Dataset

QueueOffsets = Mapping[str, Mapping[int, int | Literal["earliest", "latest"]]]
"""Topic to queue id to an offset; queues that are not named are read whole."""

_TOPIC_OPTIONS: Final = frozenset({"topic", "subscribe", "subscribepattern", "assign"})
_WORDS: Final = {"earliest": EARLIEST_OFFSET, "latest": LATEST_OFFSET}


class RayDataMissing(SourceError):
    """Ray Data, or what it needs beside Ray, is not here; the text says what to install."""


def read_wakelog(
    topics: str | Sequence[str],
    *,
    store_path: str | os.PathLike[str] | None = None,
    snapshots: Sequence[Any] = (),
    trigger: Literal["once"] = "once",
    start_offset: int | datetime | Literal["earliest"] | QueueOffsets = "earliest",
    end_offset: int | datetime | Literal["latest"] | QueueOffsets = "latest",
    options: Mapping[str, str] | None = None,
    override_num_blocks: int | None = None,
    **ray_arguments: Any,
) -> Dataset:
    """Return the messages of topics. Raises: SourceError, ValueError.

    store_path: as Spark's option; or else `snapshots` that brokers handed over, or references to
        them.
    start_offset, end_offset: of every queue; a time of storing, UTC if it has no zone; or by queue.
    options: further ones of Spark's source, such as `subExpression` or `schemaMode`.
    ray_arguments: of `ray.data.read_datasource`, such as `num_cpus` or `concurrency`.
    """
    if trigger != "once":
        raise ValueError(f"trigger is {trigger!r}; a Dataset is read once")
    try:
        import ray.data
    except ImportError as error:
        raise RayDataMissing(
            f"Ray Data cannot be imported ({error}): pip install 'wakelog[ray-data]'"
        ) from error
    reads = asked_for(
        topics,
        store_path=store_path,
        snapshots=snapshots,
        start_offset=start_offset,
        end_offset=end_offset,
        options=options,
    )
    dataset: Dataset = ray.data.read_datasource(
        _datasource(reads), override_num_blocks=override_num_blocks, **ray_arguments
    )
    return dataset


def asked_for(
    topics: str | Sequence[str],
    *,
    store_path: str | os.PathLike[str] | None = None,
    snapshots: Sequence[Any] = (),
    start_offset: int | datetime | str | QueueOffsets = "earliest",
    end_offset: int | datetime | str | QueueOffsets = "latest",
    options: Mapping[str, str] | None = None,
) -> LogReads:
    """Return the read that the arguments of `read_wakelog` ask for.

    Raises: SourceError, ValueError.
    """
    _check_place("start_offset", start_offset)
    _check_place("end_offset", end_offset)
    words: dict[str, str] = dict(options or {})
    of_topics = [word for word in words if word.lower() in _TOPIC_OPTIONS]
    if of_topics:
        raise OptionError(f"option {of_topics[0]} is for Spark: topics are the first argument")
    words["topic"] = topics if isinstance(topics, str) else ",".join(topics)
    if snapshots:
        words["snapshot"] = snapshot_text(*snapshots)
    if store_path is not None:
        words["storePath"] = os.fspath(store_path)
    words |= _starts(start_offset) | _ends(end_offset)
    return LogReads(words, _bounds(start_offset, end_offset))


class LogReads:
    """One read: what is asked for, and its tasks. Knows no Ray, and can be pickled."""

    def __init__(self, words: Mapping[str, str], bounds: Bounds = EVERYTHING) -> None:
        """Check the options; `bounds` hold for every queue. Raises: OptionError."""
        self.options = read_options(words)
        check_use(words, stream=False)
        if self.options.table != "messages":
            raise OptionError("option table is for Spark: a Dataset has messages")
        if self.options.remote is not None:
            raise OptionError("a Dataset is read from files: give store_path or snapshots")
        self._bounds = bounds
        self._scope: tuple[Selection, dict[str, tuple[int, int]]] | None = None

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the schema of some columns, None for those of the options. Raises: OptionError.

        Rows without any column cannot be counted: then there is the narrowest.
        """
        table = self.options.column_types()
        if columns is None:
            columns = self.options.columns or list(table)
        chosen = chosen_columns(table, columns or [_narrowest(table)])
        return arrow_schema_of(chosen)

    def plan(self, partitions_min: int = 1) -> list[PlannedTask]:
        """Plan the read; how far the log goes is found once. Raises: SourceError."""
        query = Query(self.options._replace(partitions_min=partitions_min))
        views = query.views()
        if self._scope is None:
            found = query.select(views)
            selection = found._replace(everywhere=found.everywhere.within(self._bounds))
            bounds = {view.store.broker: read_bounds(selection, view) for view in views}
            self._scope = selection, bounds
        return query.plan_bounds(views, *self._scope)


def read_tables(
    options: ReadOptions, schema: pa.Schema, planned: PlannedTask
) -> Iterator[pa.Table]:
    """Yield what one task reads, in a worker. Raises: DataLost."""
    from wakelog.spark.reader import TaskReader

    fs = RealFileSystem()
    reader = TaskReader(
        fs,
        planned.selection,
        row_options(options),
        fail_on_data_loss=options.fail_on_data_loss,
    )
    batches = reader.batches(planned.task, schema)
    for batch in explained(fs, options.snapshots, batches):
        yield pa.Table.from_batches([batch])


def _datasource(reads: LogReads) -> Any:
    """Return the read as Ray takes it: a class that is made where Ray Data is there."""
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    class WakelogDatasource(Datasource):
        """The read, for Ray."""

        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self._projection_map: dict[str, str] | None = None

        def estimate_inmemory_data_size(self) -> int:
            return sum(map(_size_bytes, reads.plan()))

        def supports_projection_pushdown(self) -> bool:
            return True

        def get_read_tasks(
            self,
            parallelism: int,
            per_task_row_limit: int | None = None,
            data_context: Any = None,
        ) -> list[ReadTask]:
            schema = reads.schema(self._get_data_columns())
            return [
                ReadTask(
                    partial(read_tables, reads.options, schema, planned),
                    BlockMetadata(
                        num_rows=None,
                        size_bytes=_size_bytes(planned),
                        input_files=tuple({part.segment.path for part in planned.task}),
                        exec_stats=None,
                    ),
                    schema=schema,
                    per_task_row_limit=per_task_row_limit,
                )
                for planned in reads.plan(parallelism)
            ]

    return WakelogDatasource()


def _narrowest(table: Mapping[str, str]) -> str:
    return next(name for name, kind in table.items() if kind == "int")


def _size_bytes(planned: PlannedTask) -> int:
    return sum(part.size_bytes for part in planned.task)


def _check_place(name: str, place: Any) -> None:
    """Refuse what is no place in queues. Raises: ValueError."""
    if isinstance(place, datetime):
        return
    if not isinstance(place, Mapping):
        return _check_offset(name, place)
    for topic, queues in place.items():
        if not isinstance(queues, Mapping):
            raise ValueError(f"{name}[{topic!r}] is {queues!r}: give queue ids and their offsets")
        for queue, offset in queues.items():
            if name == "end_offset" and offset == "earliest":
                raise ValueError(f"{name}[{topic!r}][{queue!r}] cannot be 'earliest'")
            _check_offset(f"{name}[{topic!r}][{queue!r}]", offset)


def _check_offset(what: str, offset: Any) -> None:
    is_number = isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0
    if not is_number and offset not in list(_WORDS):
        raise ValueError(f"{what} is {offset!r}: give 0 or above, 'earliest' or 'latest'")


def _bounds(start: Any, end: Any) -> Bounds:
    begin = start if isinstance(start, int) else EVERYTHING.queue_begin
    stop = end if isinstance(end, int) else EVERYTHING.queue_end
    if begin > stop:
        raise ValueError(f"start_offset {begin} is above end_offset {stop}")
    times = [_milliseconds(place) for place in (start, end) if isinstance(place, datetime)]
    if times != sorted(times):
        raise ValueError(f"start_offset {start} is later than end_offset {end}")
    return Bounds(queue_begin=begin, queue_end=stop)


def _starts(start: Any) -> dict[str, str]:
    if start == "latest":
        raise ValueError("start_offset cannot be 'latest': nothing would be read")
    if isinstance(start, datetime):
        # Where nothing is so new, nothing is read.
        return {
            "startingTimestamp": str(_milliseconds(start)),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    return {"startingOffsets": _by_queue(start)} if isinstance(start, Mapping) else {}


def _ends(end: Any) -> dict[str, str]:
    if end == "earliest":
        raise ValueError("end_offset cannot be 'earliest': nothing would be read")
    if isinstance(end, datetime):
        return {"endingTimestamp": str(_milliseconds(end))}
    return {"endingOffsets": _by_queue(end)} if isinstance(end, Mapping) else {}


def _by_queue(offsets: Mapping[str, Mapping[Any, Any]]) -> str:
    return json.dumps(
        {
            topic: {str(queue): _WORDS.get(offset, offset) for queue, offset in queues.items()}
            for topic, queues in offsets.items()
        }
    )


def _milliseconds(moment: datetime) -> int:
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)
