"""Plans one query over files, without Spark: from options to tasks.

`source.py`, `stream.py` and `ray_data.py` share it. A task carries all that it needs.

Invariants: a plan uses the files as they are at that moment, and its tasks keep it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from wakelog.spark.bounds import Selection
from wakelog.spark.errors import DataLost
from wakelog.spark.log_end import tail_damage
from wakelog.spark.options import ReadOptions
from wakelog.spark.plan import Limits, ReadRange, Task, make_plan, partition_bytes
from wakelog.spark.records.column_walk import Damage
from wakelog.spark.snapshots import snapshot_store, within_snapshots
from wakelog.spark.starts import read_bounds, select
from wakelog.spark.store_view import StoreView
from wakelog.spark.stores import find_stores
from wakelog.storage.file_system import FileSystem


class PlannedTask(NamedTuple):
    """The ranges of one task, and what the query wants of them. The first task has the gaps."""

    task: Task
    selection: Selection
    gaps: tuple[tuple[str, Damage], ...] = ()


class Query:
    """See the module."""

    def __init__(self, options: ReadOptions, columns: Collection[str] | None = None) -> None:
        """Read nothing yet. columns: those that tasks will make; None for all."""
        self.options = options
        self._columns = options.column_types() if columns is None else columns
        self._fs = FileSystem()

    def views(self, known: Mapping[str, int] | None = None) -> list[StoreView]:
        """Open the stores. known: ends of their logs that an earlier call found."""
        fs, strict = self._fs, self.options.fail_on_data_loss
        if self.options.snapshots:
            return [
                StoreView(fs, snapshot_store(fs, each, fail_on_data_loss=strict), end=each.end)
                for each in self.options.snapshots
            ]
        return [
            StoreView(fs, store, known=(known or {}).get(store.broker, 0))
            for store in find_stores(fs, self.options.store_path)
        ]

    def select(self, views: Sequence[StoreView], *, stream: bool = False) -> Selection:
        """Return the selection of the options. Raises: OptionError, DataLost."""
        selection = select(self.options, views, stream=stream)
        return within_snapshots(selection, self.options.snapshots)

    def plan(self, views: Sequence[StoreView], selection: Selection) -> list[PlannedTask]:
        """Plan a batch read. Raises: DataLost."""
        bounds = {view.store.broker: read_bounds(selection, view) for view in views}
        return self.plan_bounds(views, selection, bounds)

    def plan_bounds(
        self,
        views: Sequence[StoreView],
        selection: Selection,
        bounds: Mapping[str, tuple[int, int]],
    ) -> list[PlannedTask]:
        """Plan to read [begin, end) of each broker's log. Raises: DataLost."""
        by_name = {view.store.broker: view for view in views}

        def begins(part: ReadRange, places: Sequence[int]) -> list[int]:
            view, count = by_name[part.broker], self.options.partition_records_max
            if count is None:
                return view.record_begins(part, places)
            return sorted({*view.nth_records(part, count), *view.walked_begins(part, places)})

        plan = make_plan(
            [(by_name[name].store, *span) for name, span in bounds.items()],
            Limits(
                self.options.partition_bytes_max or partition_bytes(self._columns),
                self.options.partitions_min,
                cut_all=self.options.partition_records_max is not None,
            ),
            begins,
        )
        if plan.gaps and self.options.fail_on_data_loss and self.options.table == "messages":
            broker, gap = plan.gaps[0]
            raise DataLost(
                f"the log of {broker} has no file for physical offsets {gap.begin} to {gap.end}"
            )
        tasks = [PlannedTask(task, selection) for task in plan.tasks]
        gaps = (*plan.gaps, *self._tails(views, bounds))
        if gaps:
            first, *rest = tasks or [PlannedTask((), selection)]
            tasks = [first._replace(gaps=gaps), *rest]
        return tasks

    def _tails(
        self, views: Sequence[StoreView], bounds: Mapping[str, tuple[int, int]]
    ) -> Iterator[tuple[str, Damage]]:
        """Yield the bytes written after the logs' ends, if the query reads damage up to there."""
        if self.options.table != "damage" or self.options.snapshots:
            return
        for view in views:
            broker = view.store.broker
            if bounds[broker][1] >= view.end:
                tail = tail_damage(self._fs, view.store, view.end)
                if tail is not None:
                    yield broker, tail
