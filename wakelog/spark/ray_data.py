"""`read_wakelog`: the messages of a log as a Ray Dataset, in the manner of `ray.data.read_kafka`.

It shares plan, reader and columns with Spark's source, and reads store files or snapshots.
Each task of the plan becomes a read task of Ray, and each record batch a block. Ray names the
columns that it needs, and no others are made.

Ray Data needs more than Ray: the extra `ray-data` of the package.

Invariants: a read is bounded, and its end is found once, however often Ray requests tasks. A task
that runs again returns the same rows.

Source: ray.data.read_kafka (2.60) for the names and the meaning of the arguments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from wakelog.spark.bounds import EVERYTHING, Bounds, Selection
from wakelog.spark.columns import chosen_columns
from wakelog.spark.errors import OptionError, SourceError
from wakelog.spark.handoff import snapshot_text
from wakelog.spark.option_texts import milliseconds
from wakelog.spark.options import ReadOptions, check_use, read_options
from wakelog.spark.positions import EARLIEST, EARLIEST_OFFSET, LATEST, LATEST_OFFSET, Position
from wakelog.spark.query import PlannedTask, Query
from wakelog.spark.records.arrow_types import arrow_schema_of
from wakelog.spark.starts import read_bounds

if TYPE_CHECKING:
    from ray.data import Dataset

QueueOffsets = Mapping[str, Mapping[int, int | Literal["earliest", "latest"]]]
"""Topic to queue id to an offset; queues that are not named are read whole."""

_TOPIC_OPTIONS: Final = frozenset({"topic", "subscribe", "subscribepattern", "assign"})
_WORDS: Final = {EARLIEST: EARLIEST_OFFSET, LATEST: LATEST_OFFSET}


class RayDataMissing(SourceError):
    """Ray Data, or a package that it needs, is not installed; the text says what to install."""


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

    store_path: as Spark's option. snapshots: instead of it, snapshots of brokers or references to
        them.
    start_offset, end_offset: for every queue, or by queue; a time is the time of storing, and is
        UTC without a zone.
    options: further options of Spark's source, such as `subExpression` or `schemaMode`.
    ray_arguments: of `ray.data.read_datasource`, such as `num_cpus` or `concurrency`.
    """
    if trigger != "once":
        raise ValueError(f"trigger is {trigger!r}; a Dataset is read once")
    try:
        import ray.data
    except ImportError as error:
        raise RayDataMissing(
            f"Ray Data cannot be imported ({error}); install wakelog with its extra ray-data"
        ) from error
    reads = LogReads(
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


class LogReads:
    """One read: its options and its tasks. It does not use Ray, and can be pickled."""

    def __init__(
        self,
        topics: str | Sequence[str],
        *,
        store_path: str | os.PathLike[str] | None = None,
        snapshots: Sequence[Any] = (),
        start_offset: int | datetime | str | QueueOffsets = EARLIEST,
        end_offset: int | datetime | str | QueueOffsets = LATEST,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Check the arguments of `read_wakelog`. Raises: SourceError, ValueError."""
        for name, offset, word in (
            ("start_offset", start_offset, LATEST),
            ("end_offset", end_offset, EARLIEST),
        ):
            _check_offsets(name, offset)
            if offset == word:
                raise ValueError(f"{name} cannot be {word!r}: nothing would be read")
        given: dict[str, str] = dict(options or {})
        of_topics = [word for word in given if word.lower() in _TOPIC_OPTIONS]
        if of_topics:
            raise OptionError(f"option {of_topics[0]} is for Spark: topics are the first argument")
        given["topic"] = topics if isinstance(topics, str) else ",".join(topics)
        if snapshots:
            given["snapshot"] = snapshot_text(*snapshots)
        if store_path is not None:
            given["storePath"] = os.fspath(store_path)
        read = read_options(given)
        check_use(given, stream=False)
        if read.table != "messages":
            raise OptionError("option table is for Spark: a Dataset has messages")
        if read.remote is not None:
            raise OptionError("a Dataset is read from files: give store_path or snapshots")
        if isinstance(start_offset, datetime):
            # A time later than all messages reads nothing.
            read = read._replace(by_timestamp_strategy=LATEST)
        self.options = read._replace(
            begin=_position(start_offset) or read.begin, end=_position(end_offset) or read.end
        )
        self._bounds = _bounds(start_offset, end_offset)
        self._scope: tuple[Selection, dict[str, tuple[int, int]]] | None = None

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the schema of some columns; None for the columns of the options.

        Rows without any column cannot be counted, so an empty list gives the narrowest column.
        Raises: OptionError.
        """
        table = self.options.column_types()
        if columns is None:
            columns = self.options.columns or list(table)
        narrowest = next(name for name, kind in table.items() if kind == "int")
        return arrow_schema_of(chosen_columns(table, columns or [narrowest]))

    def plan(self, partitions_min: int = 1) -> list[PlannedTask]:
        """Plan the read; the end of the log is found once. Raises: SourceError."""
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
    """Yield the tables of one task, in a worker. Raises: DataLost."""
    from wakelog.spark.reader import read_task

    for batch in read_task(options, schema, planned):
        yield pa.Table.from_batches([batch])


def _datasource(reads: LogReads) -> Any:
    """Return the read as Ray accepts it. The class needs Ray Data, so this function defines it."""
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


def _size_bytes(planned: PlannedTask) -> int:
    return sum(part.size_bytes for part in planned.task)


def _check_offsets(name: str, offset: Any) -> None:
    """Refuse anything but an offset, a word, a time, or offsets by queue. Raises: ValueError."""
    if isinstance(offset, datetime):
        return
    if not isinstance(offset, Mapping):
        is_number = isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0
        if not is_number and offset not in list(_WORDS):
            raise ValueError(f"{name} is {offset!r}: give 0 or above, 'earliest' or 'latest'")
        return
    for topic, queues in offset.items():
        if not isinstance(queues, Mapping):
            raise ValueError(f"{name}[{topic!r}] is {queues!r}: give queue ids and their offsets")
        for queue, value in queues.items():
            if name == "end_offset" and value == EARLIEST:
                raise ValueError(f"{name}[{topic!r}][{queue!r}] cannot be 'earliest'")
            _check_offsets(f"{name}[{topic!r}][{queue!r}]", value)


def _position(offset: Any) -> Position | None:
    """Return a time or offsets by queue as a position, None for anything else."""
    if isinstance(offset, datetime):
        return Position(time_ms=milliseconds(offset))
    if not isinstance(offset, Mapping):
        return None
    by_topic = {
        topic: {"": {queue: _WORDS.get(value, value) for queue, value in queues.items()}}
        for topic, queues in offset.items()
    }
    return Position(offsets=by_topic)


def _bounds(start: Any, end: Any) -> Bounds:
    """Return the bounds of offsets that are for every queue. Raises: ValueError."""
    begin = start if isinstance(start, int) else EVERYTHING.queue_begin
    stop = end if isinstance(end, int) else EVERYTHING.queue_end
    if begin > stop:
        raise ValueError(f"start_offset {begin} is above end_offset {stop}")
    times_ms = [milliseconds(place) for place in (start, end) if isinstance(place, datetime)]
    if times_ms != sorted(times_ms):
        raise ValueError(f"start_offset {start} is later than end_offset {end}")
    return Bounds(queue_begin=begin, queue_end=stop)
