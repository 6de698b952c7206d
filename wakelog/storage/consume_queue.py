"""Reading one consume queue: 20-byte entries that say where a queue's messages lie in the log.

Used by the Broker process, while the Reput process writes (`consume_queue_writer.py`); the two
share nothing but the files.

Source: org.apache.rocketmq.store.ConsumeQueue (4.9.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wakelog.storage.file_system import FileSystem
from wakelog.storage.open_files import OpenFiles

ENTRY_BYTES = 20


class QueueEntry(NamedTuple):
    """One entry; a size of 0 means that none was written there."""

    physical_offset: int
    size_bytes: int
    tags_code: int


class ConsumeQueue:
    """One queue's files. `directory` is `paths.consume_queue(topic, queue_id)`; it may not exist."""

    def __init__(
        self, fs: FileSystem, directory: str, *, file_bytes: int, open_files: OpenFiles
    ) -> None:
        """Touch no file."""

    def refresh(self) -> None:
        """List the files again: another process makes and removes them."""

    @property
    def first_queue_offset(self) -> int:
        """The queue offset of the first file's first place, 0 if there is no file."""
        raise NotImplementedError

    @property
    def files_end(self) -> int:
        """The queue offset after the last file's last place, 0 if there is no file."""
        raise NotImplementedError

    def entries(self, begin: int, count_max: int) -> bytes:
        """Return the bytes of up to `count_max` places from `begin` on, never past one file's end.

        Places that were not written are zeros. b"" if no file holds `begin`.
        """
        raise NotImplementedError

    def entry(self, queue_offset: int) -> QueueEntry | None:
        """Return one entry, None if there is no file or nothing was written."""
        raise NotImplementedError

    def end_of_written(self, begin: int = 0) -> int:
        """Return the queue offset after the last written entry; `begin` is known to be written."""
        raise NotImplementedError

    def end_of_readable(self, dispatched: int, begin: int = 0) -> int:
        """Return the first queue offset >= begin that is unwritten or ends above `dispatched`."""
        raise NotImplementedError

    def min_queue_offset(self, min_physical_offset: int, end: int) -> int:
        """Return the first entry of the first file at or above the log's begin (fact 48)."""
        raise NotImplementedError

    def offset_by_time(
        self,
        timestamp_ms: int,
        *,
        end: int,
        min_queue_offset: int,
        min_physical_offset: int,
        store_time: Callable[[int, int], int],
    ) -> int:
        """Return the queue offset whose store time is nearest (fact 49).

        end: queue offset after the last readable entry.
        store_time: (physical offset, size) to the record's store timestamp, -1 if unknown.
        """
        raise NotImplementedError
