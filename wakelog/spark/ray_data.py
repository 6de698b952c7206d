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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from wakelog.client.errors import InvalidArgument
from wakelog.client.plain import (
    not_accepted,
    plain_text,
    plain_texts,
    plain_topic,
    whole_number,
)
from wakelog.protocol.java import INT_MAX
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
    if not isinstance(trigger, str) or str.__str__(trigger) != "once":
        raise ValueError(f"trigger is {trigger!r}; a Dataset is read once")
    try:
        import ray.data
    except ImportError as error:
        raise RayDataMissing(
            f"Ray Data cannot be imported ({error}); install wakelog with its extra ray-data"
        ) from error
    blocks = override_num_blocks
    if blocks is not None:
        blocks = whole_number("override_num_blocks", blocks, 1, INT_MAX)
    reads = LogReads(
        topics,
        store_path=store_path,
        snapshots=snapshots,
        start_offset=start_offset,
        end_offset=end_offset,
        options=options,
    )
    dataset: Dataset = ray.data.read_datasource(
        _datasource(reads), override_num_blocks=blocks, **ray_arguments
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
        start_offset = _plain_offsets("start_offset", start_offset)
        end_offset = _plain_offsets("end_offset", end_offset)
        read = _checked(_given_texts(topics, store_path, snapshots, options))
        for name, offset, word, other in (
            ("start_offset", start_offset, LATEST, read.begin),
            ("end_offset", end_offset, EARLIEST, read.end),
        ):
            if offset == word:
                raise ValueError(f"{name} cannot be {word!r}: nothing would be read")
            if _position(offset) is not None and other != Position():
                raise OptionError(f"{name} and an option say it both: give one of them")
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


def _given_texts(topics: Any, store_path: Any, snapshots: Any, options: Any) -> dict[str, str]:
    """Return the options of one read of files. Raises: SourceError, InvalidArgument."""
    given = _plain_options(options)
    places = {"topic": ",".join(_plain_topics(topics))}
    if isinstance(snapshots, str | bytes | Mapping) or not isinstance(snapshots, Iterable):
        raise not_accepted("snapshots", snapshots, "several snapshots, as a list")
    if snapshots := list(snapshots):
        places["snapshot"] = snapshot_text(*snapshots)
    if store_path is not None:
        path = os.fspath(store_path) if isinstance(store_path, os.PathLike) else store_path
        places["storePath"] = plain_text("store_path", path, "a Path, or a text")
    for word in given:
        if word.lower() in _TOPIC_OPTIONS:
            raise OptionError(f"option {word} is for Spark: topics are the first argument")
        if word.lower() in map(str.lower, places):
            raise OptionError(f"option {word} says what an argument says, too: give one of them")
    return given | places


def _checked(given: dict[str, str]) -> ReadOptions:
    """Return options that a Dataset can have. Raises: OptionError."""
    read = read_options(given)
    check_use(given, stream=False)
    if read.table != "messages":
        raise OptionError("option table is for Spark: a Dataset has messages")
    if read.remote is not None:
        raise OptionError("a Dataset is read from files: give store_path or snapshots")
    return read


def _plain_topics(given: object) -> list[str]:
    """Return the names of topics. Raises: InvalidArgument, also for one that has a comma."""
    several = [given] if isinstance(given, str) else plain_texts("topics", given)
    return [plain_topic(each, "topics", "a name of a topic, or several") for each in several]


def _plain_options(given: object) -> dict[str, str]:
    """Return options of Spark's source as plain texts. Raises: InvalidArgument."""
    if not isinstance(given, Mapping | None):
        raise not_accepted("options", given, "a mapping from options of Spark's source to texts")
    pairs = ((plain_text("options", name), value) for name, value in (given or {}).items())
    return {name: plain_text(f"options[{name!r}]", value) for name, value in pairs}


def _plain_offsets(name: str, given: Any) -> Any:
    """Return an offset, a word, a time, or offsets by queue, as plain values. Raises: ValueError.

    A time without a zone is UTC.
    """
    if isinstance(given, datetime):
        _moment_ms(name, given)
        return given
    if isinstance(given, Mapping):
        return {
            plain_topic(topic, name): _plain_queues(f"{name}[{str.__str__(topic)!r}]", name, queues)
            for topic, queues in given.items()
        }
    if isinstance(given, str) and str.__str__(given) in list(_WORDS):
        return str.__str__(given)
    with suppress(InvalidArgument):
        return whole_number(name, given, 0)
    raise ValueError(f"{name} is {given!r}: give 0 or above, 'earliest' or 'latest'")


def _plain_queues(place: str, name: str, queues: Any) -> dict[int, Any]:
    if not isinstance(queues, Mapping):
        raise ValueError(f"{place} is {queues!r}: give queue ids and their offsets")
    found = {}
    for queue, value in queues.items():
        if isinstance(value, Mapping | datetime):
            raise not_accepted(f"{place}[{queue!r}]", value, "an offset, or a word")
        offset = _plain_offsets(f"{place}[{queue!r}]", value)
        if name == "end_offset" and offset == EARLIEST:
            raise ValueError(f"{place}[{queue!r}] cannot be 'earliest'")
        found[whole_number(f"a queue of {place}", queue, 0, INT_MAX)] = offset
    return found


def _moment_ms(name: str, moment: datetime) -> int:
    """Return milliseconds since 1970. Raises: InvalidArgument for a time that has none."""
    try:
        return milliseconds(moment)
    except (ValueError, OverflowError):
        raise not_accepted(name, moment, "a time nearer to now") from None


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
