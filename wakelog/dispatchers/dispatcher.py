"""The protocol of a dispatcher, which derives files from the commit log, record by record.

Reput reads the log in steps, and hands the sound records of each step to every dispatcher as one
batch. The contract is the same for the built-in dispatchers and for plug-ins:

- Batches come in log order. Only bytes that hold no record are left out. After a restart batches
  begin at or below what `recover` returned, so that a repeated record must change nothing.
- `dispatch` may keep data in memory. `flush` makes it durable, or returns how far it is durable.
- A batch and its parts may not be kept after the call, because buffers are reused.
- No method waits, except for the disk. No two threads call methods at once.

Source: org.apache.rocketmq.store.CommitLogDispatcher (4.9.3).
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from wakelog.storage.columns.scan_columns import Columns
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.durability.dispatched import IndexEnd
from wakelog.storage.log.dispatch_request import DispatchRequest

__all__ = ["CoreDispatcher", "DispatchBatch", "DispatchRequest", "Dispatcher", "FlushPart"]


class DispatchBatch:
    """Sound records in log order, all between the physical offsets [begin, end).

    columns: the records in columns, if the step was a bulk one, else None.
    bitmaps: for each of `requests` which filters it passes, b"" without a filter; None before
        `filter_bitmap.py` has set it. No other dispatcher changes a batch.
    caught_up: nothing more is readable now, so that dispatchers should write what they keep.
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
        """Hold the records as requests or as columns."""
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
        """The records as values; a bulk step makes them at the first request."""
        if self._requests is None:
            assert self.columns is not None
            self._requests = self.columns.requests()
        return self._requests

    def __len__(self) -> int:
        """Return the count of records."""
        if self._requests is not None:
            return len(self._requests)
        assert self.columns is not None
        return self.columns.count


class RecordConsumer(Protocol):
    """The methods that plug-ins and built-in dispatchers share."""

    @property
    def name(self) -> str:
        """A short name of letters, digits and underscores, unique among the dispatchers."""
        ...

    def dispatch(self, batch: DispatchBatch) -> None:
        """Consume records; a record that was consumed before changes nothing."""
        ...

    def recover(self, max_physical_offset: int) -> int:
        """Open own files, drop records at or above the log's end, and return where to go on.

        Returns: a physical offset at which a record begins or the log ends; 0 for the whole log.
        """
        ...

    def truncate(self, physical_offset: int) -> int:
        """Check own files, and durably drop records at or above `physical_offset`.

        Returns: where to go on, as `recover` does. Called after `recover` if the log was cut or the
        last exit was not clean.
        """
        ...

    def statistics(self) -> Mapping[str, int]:
        """Return counters by name."""
        ...


class Dispatcher(RecordConsumer, Protocol):
    """A plug-in: one kind of derived file."""

    def flush(self) -> int | None:
        """Make consumed records durable; return up to which offset, None for all of them.

        Records above a returned offset come again after a restart. Retention keeps them until then.
        """
        ...


class FlushPart(NamedTuple):
    """The files of one built-in dispatcher to sync, and then the directories with new names.

    index_timestamp_ms: the store time up to which the index is complete after the sync, 0 if it is
        empty, None from other dispatchers.
    index_end: where the index ends after the sync.
    """

    paths: list[str]
    directories: list[str]
    index_timestamp_ms: int | None = None
    index_end: IndexEnd = IndexEnd()


class CoreDispatcher(RecordConsumer, Protocol):
    """A built-in dispatcher: Reput syncs the files of all of them in one job."""

    def prepare_flush(self) -> FlushPart:
        """Write what is in memory and return the files that a sync has to reach."""
        ...

    def make_ahead(self) -> None:
        """Make files ahead of need; missing ones are made when they are needed.

        Any thread may call it, but not while files are opened or closed. Raises: StoreError.
        """
        ...

    def remove_before(self, physical_offset: int) -> int:
        """Delete files that hold nothing of the log from `physical_offset` on; return how many."""
        ...

    def remove_queues(self, removal: QueueRemoval) -> int:
        """Remove queues for good; return how many there were.

        Raises: TooManyDeleted, and then nothing is removed; IllegalName, StoreFull, StoreFailed.
        """
        ...

    def close(self) -> None:
        """Close the files, without making anything durable."""
        ...


class FilelessDispatcher:
    """The part of a built-in dispatcher without files that has nothing to do."""

    def prepare_flush(self) -> FlushPart:
        """Name no file."""
        return FlushPart([], [])

    def make_ahead(self) -> None:
        """Do nothing."""

    def remove_before(self, physical_offset: int) -> int:
        """Remove nothing."""
        return 0

    def remove_queues(self, removal: QueueRemoval) -> int:
        """Remove nothing."""
        return 0

    def close(self) -> None:
        """Do nothing."""
