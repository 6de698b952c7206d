"""What a dispatcher is: something that derives files from the commit log, record by record.

Reput reads the log in steps and hands each step's sound records to every dispatcher as one batch.

Contract of a dispatcher, the built-in ones and those of others alike:
- Batches come in log order, without gaps but for bytes that hold no record. After a restart
  they begin at or below what `recover` returned: a record that was taken in before must change
  nothing.
- `dispatch` may keep things in memory; `flush` makes durable what was taken in, or says how much.
- A batch and what it gives out may not be kept beyond the call: buffers are reused.
- No method waits, but for the disk, and none is called from two threads at once.

Source: org.apache.rocketmq.store.CommitLogDispatcher (4.9.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from wakelog.storage.durability.dispatched import IndexEnd
from wakelog.storage.kernels.columns import Columns
from wakelog.storage.log.dispatch_request import DispatchRequest

__all__ = ["CoreDispatcher", "DispatchBatch", "DispatchRequest", "Dispatcher", "FlushPart"]


class DispatchBatch:
    """Sound records in log order, all between the physical offsets [begin, end).

    columns: the same records in columns, when the step was a bulk one, else None.
    bitmaps: for each of `requests` which filters it passes, b"" where nobody filters; None before
        `filter_bitmap.py` has set it. Of what is taken in, the only part that a dispatcher adds.
    caught_up: nothing more is readable right now, so what waits in memory should be written.
    """

    __slots__ = ("_requests", "begin", "bitmaps", "caught_up", "columns", "end", "now_ms")

    def __init__(
        self,
        begin: int,
        end: int,
        now_ms: int,
        *,
        requests: list[DispatchRequest] | None = None,
        columns: Columns | None = None,
        caught_up: bool = True,
    ) -> None:
        """Take one of the two forms."""
        assert begin <= end and (requests is None) != (columns is None)
        self.begin = begin
        self.end = end
        self.now_ms = now_ms
        self.columns = columns
        self.caught_up = caught_up
        self.bitmaps: list[bytes] | None = None
        self._requests = requests

    @property
    def requests(self) -> list[DispatchRequest]:
        """The records as values; made when first asked for, if the step was a bulk one."""
        if self._requests is None:
            assert self.columns is not None
            self._requests = self.columns.requests()
        return self._requests

    def __len__(self) -> int:
        """Return how many records there are."""
        if self._requests is not None:
            return len(self._requests)
        assert self.columns is not None
        return self.columns.count


class Dispatcher(Protocol):
    """One kind of derived file."""

    @property
    def name(self) -> str:
        """A short name of letters, digits and underscores, unique among the dispatchers."""
        ...

    def dispatch(self, batch: DispatchBatch) -> None:
        """Take records in; those that were taken in before change nothing."""
        ...

    def flush(self) -> int | None:
        """Make what was taken in durable; return up to where, None for all of it.

        What lies behind a returned offset is handed over again after a restart, and retention
        keeps it meanwhile.
        """
        ...

    def recover(self, max_physical_offset: int) -> int:
        """Open own files, forget records at or past the log's end, say where dispatch goes on.

        Returns: a physical offset at which a record begins or the log ends; 0 for "all of it".
        """
        ...

    def truncate(self, physical_offset: int) -> int:
        """Check own files and forget records at or above `physical_offset`, durably.

        Called after `recover` when the log was cut or the exit before was not clean.

        Returns: where dispatch goes on, as `recover` does.
        """
        ...

    def statistics(self) -> Mapping[str, int]:
        """Return counters by name."""
        ...


class FlushPart(NamedTuple):
    """What one built-in dispatcher needs synced: files, then the directories with new names.

    index_timestamp_ms: the store time up to which the index is whole then, 0 if it is empty; None
        if it is no index.
    index_end: where the index ends then.
    """

    paths: list[str]
    directories: list[str]
    index_timestamp_ms: int | None = None
    index_end: IndexEnd = IndexEnd()


class CoreDispatcher(Dispatcher, Protocol):
    """A built-in dispatcher: Reput syncs the files of all of them in one job."""

    def prepare_flush(self) -> FlushPart:
        """Write what is in memory and return the files that a sync has to reach."""
        ...

    def make_ahead(self) -> None:
        """Make files that new names will soon need: those that are missing are made when needed.

        For any thread, but not while files are opened anew or closed. Raises: StoreError.
        """
        ...

    def remove_before(self, physical_offset: int) -> int:
        """Delete files that hold nothing of the log from here on; return how many."""
        ...

    def delete_topic(self, topic: str) -> int:
        """Remove what is kept for one topic alone; return how many queues that was."""
        ...

    def close(self) -> None:
        """Let go of the files; nothing is made durable by that."""
        ...


class FilelessDispatcher:
    """The part of a built-in dispatcher without files that has nothing to do."""

    def flush(self) -> None:
        """Do nothing."""

    def prepare_flush(self) -> FlushPart:
        """Name no file."""
        return FlushPart([], [])

    def make_ahead(self) -> None:
        """Do nothing."""

    def remove_before(self, physical_offset: int) -> int:
        """Remove nothing."""
        return 0

    def delete_topic(self, topic: str) -> int:
        """Remove nothing."""
        return 0

    def close(self) -> None:
        """Do nothing."""
