"""Builds the index: the keys of each message, in files that a query by key searches.

A small batch is written back at once. While Reput catches up, slots stay in memory. They are
written when it has caught up, or after so many keys that a kill would cost much time.

Source: org.apache.rocketmq.store.DefaultMessageStore.CommitLogDispatcherBuildIndex (4.9.3).
"""

from collections.abc import Callable
from typing import Final

from wakelog.dispatchers.dispatcher import DispatchBatch, FlushPart
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.deleted_topics import QueueRemoval
from wakelog.storage.durability.dispatched import IndexEnd, lower_index_end, read_dispatched
from wakelog.storage.errors import store_errors, store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_writer import IndexWriter

# About a second of catching up, which Reput does again after a kill. Keys are spread over all
# slots, so that each write back of a file of the default size rewrites nearly all of their 20 MB.
WRITE_BACK_KEYS_MAX: Final = 1 << 22


class IndexDispatcher:
    """Writes all index files of one store."""

    name = "index"

    def __init__(
        self, fs: FileSystem, config: StoreConfig, store_time: Callable[[int], int]
    ) -> None:
        """Open nothing yet.

        store_time: physical offset to the record's store timestamp, below 0 if unknown.
        """
        self._fs = fs
        self._directory = config.paths.index_directory
        self._dispatched_path = config.paths.dispatched
        self._writer = IndexWriter(fs, config)
        self._store_time = store_time
        self._written_back_keys_count = 0

    def dispatch(self, batch: DispatchBatch) -> None:
        """Put the keys of each record."""
        writer = self._writer
        try:
            if batch.columns is not None:
                writer.put_columns(batch.columns, batch.now_ms)
            else:
                for request in batch.requests:
                    writer.put(request, batch.now_ms)
            waiting = writer.keys_count - self._written_back_keys_count
            if batch.caught_up or batch.columns is None or waiting >= WRITE_BACK_KEYS_MAX:
                self._write_back()
        except OSError as error:  # not `store_errors`: this runs for each small batch
            raise store_failure(self._directory, "write", error) from error

    def prepare_flush(self) -> FlushPart:
        """Write back and return what was written since the last flush."""
        with store_errors(self._directory, "write"):
            self._write_back()
        writer = self._writer
        return FlushPart(
            writer.dirty_paths(),
            writer.take_unsynced_directories(),
            writer.end_timestamp_ms,
            writer.end,
        )

    def make_ahead(self) -> None:
        """Make the first file of an index that has none."""
        self._writer.make_ahead()

    def recover(self, max_physical_offset: int) -> int:
        """Open the newest file and return where its last record begins.

        The position is higher if the records up to there are known to have no keys. The next flush
        also syncs what an earlier writer made and did not sync.
        """
        writer = self._writer
        durable = read_dispatched(self._fs, self._dispatched_path)
        with store_errors(self._directory, "open"):
            writer.load()
        writer.mark_unsynced(durable.index_end)
        if writer.files_count and writer.end_physical_offset >= max_physical_offset:
            return self.truncate(max_physical_offset)
        if durable.index_end == IndexEnd() or durable.index_end != writer.end:
            return writer.end_physical_offset
        return max(writer.end_physical_offset, min(durable.physical_offset, max_physical_offset))

    def truncate(self, physical_offset: int) -> int:
        """Keep the sound entries of records below `physical_offset`, and drop the rest.

        If the durable end is known, only entries below it are kept: the rest is dispatched again.
        """
        durable = read_dispatched(self._fs, self._dispatched_path)
        end = min(physical_offset, durable.physical_offset)
        with store_errors(self._directory, "repair"):
            if durable.index_end != IndexEnd() and self._writer.cut(
                durable.index_end, end, self._store_time, self._lower_index_end
            ):
                # Records without keys leave no trace in the index, and need no second dispatch.
                return end
            self._writer.repair(physical_offset, self._store_time)
        return self._writer.end_physical_offset

    def remove_before(self, physical_offset: int) -> int:
        """Delete files that end below the log's begin, never the newest."""
        with store_errors(self._directory, "remove"):
            return self._writer.remove_before(physical_offset)

    def remove_queues(self, removal: QueueRemoval) -> int:
        """Keep everything: index files mix the keys of all topics."""
        return 0

    def statistics(self) -> dict[str, int]:
        """Return counters."""
        return {
            "keys_count": self._writer.keys_count,
            "files_count": self._writer.files_count,
            "files_made_count": self._writer.files_made_count,
        }

    def close(self) -> None:
        """Close the open file; Reput makes again from the log what was not written back."""
        self._writer.close()
        self._writer.remove_ahead()

    def _lower_index_end(self, index_end: IndexEnd) -> None:
        lower_index_end(self._fs, self._dispatched_path, index_end)

    def _write_back(self) -> None:
        self._writer.write_back()
        self._written_back_keys_count = self._writer.keys_count
