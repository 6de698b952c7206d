"""Builds the index: the keys of each message, in files that a query by key searches.

A small batch is written back at once; while Reput catches up, slots stay in memory until it has
caught up, or until so many keys were put that a kill would cost much time.

Source: org.apache.rocketmq.store.DefaultMessageStore.CommitLogDispatcherBuildIndex (4.9.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wakelog.dispatchers.dispatcher import DispatchBatch, FlushPart
from wakelog.dispatchers.sync_files import sync_directories, sync_files
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.dispatched import IndexEnd, lower_index_end, read_dispatched
from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_writer import IndexWriter

# About a second of catching up: what a kill makes Reput do again. Each write back of a file of the
# default size rewrites nearly all of its 20 MB of slots, since keys fall anywhere.
WRITE_BACK_KEYS_MAX: Final = 1 << 22


class IndexDispatcher:
    """All index files of one store, written."""

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
        except OSError as error:
            raise store_failure(self._directory, "write", error) from error

    def flush(self) -> None:
        """Write back and sync every file written since the last flush, and names of new ones."""
        part = self.prepare_flush()
        sync_files(self._fs, part.paths)
        sync_directories(self._fs, part.directories)

    def prepare_flush(self) -> FlushPart:
        """Write back and return what was written since the last flush."""
        try:
            self._write_back()
        except OSError as error:
            raise store_failure(self._directory, "write", error) from error
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
        """Open the newest file and return where the last record that has keys begins.

        Or where later records, that have none, are known to end. What a writer before this one has
        made and not synced is synced by the next flush.
        """
        writer = self._writer
        durable = read_dispatched(self._fs, self._dispatched_path)
        try:
            writer.load()
        except OSError as error:
            raise store_failure(self._directory, "open", error) from error
        writer.mark_unsynced(durable.index_end)
        if writer.files_count and writer.end_physical_offset >= max_physical_offset:
            return self.truncate(max_physical_offset)
        if durable.index_end == IndexEnd() or durable.index_end != writer.end:
            return writer.end_physical_offset
        return max(writer.end_physical_offset, min(durable.physical_offset, max_physical_offset))

    def truncate(self, physical_offset: int) -> int:
        """Keep the sound entries of records below `physical_offset`, and make the rest of them.

        Where it is known what is durable only that is kept: the rest comes again.
        """
        durable = read_dispatched(self._fs, self._dispatched_path)
        end = min(physical_offset, durable.physical_offset)
        try:
            if durable.index_end != IndexEnd() and self._writer.cut(
                durable.index_end, end, self._store_time, self._lower
            ):
                # Records without keys leave no trace in the index, and need not come again.
                return end
            self._writer.repair(physical_offset, self._store_time)
        except OSError as error:
            raise store_failure(self._directory, "repair", error) from error
        return self._writer.end_physical_offset

    def remove_before(self, physical_offset: int) -> int:
        """Delete files that end below the log's begin, never the newest."""
        try:
            return self._writer.remove_before(physical_offset)
        except OSError as error:
            raise store_failure(self._directory, "remove", error) from error

    def delete_topic(self, topic: str) -> int:
        """Keep everything: the keys of a topic lie among those of others."""
        return 0

    def statistics(self) -> dict[str, int]:
        """Return counters."""
        return {
            "keys_count": self._writer.keys_count,
            "files_count": self._writer.files_count,
            "files_made_count": self._writer.files_made_count,
        }

    def close(self) -> None:
        """Close the open file; what was not written back is made again from the log."""
        self._writer.close()
        self._writer.remove_ahead()

    def _lower(self, index_end: IndexEnd) -> None:
        lower_index_end(self._fs, self._dispatched_path, index_end)

    def _write_back(self) -> None:
        self._writer.write_back()
        self._written_back_keys_count = self._writer.keys_count
