"""Writing one consume queue: appends, recovery and truncation of its 20-byte entries.

Source: org.apache.rocketmq.store.ConsumeQueue (4.9.3).
"""

from __future__ import annotations

from collections.abc import Callable

from wakelog.storage.consume_queue import ConsumeQueue
from wakelog.storage.file_system import FileSystem
from wakelog.storage.open_files import OpenFiles


class ConsumeQueueWriter(ConsumeQueue):
    """The one writer of a queue: Reput while the broker runs, recovery before."""

    max_physical_offset: int  # end of the last record that has an entry, -1 if none
    max_queue_offset: int  # next free place

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        *,
        file_bytes: int,
        open_files: OpenFiles,
        make_file: Callable[[str, int], None],
    ) -> None:
        """Keep `make_file(path, size_bytes)`, which makes one zeroed file of the queue."""

    def recover(self) -> None:
        """Find the logical end from the third last file on, and zero durably what lies behind."""

    def put(self, physical_offset: int, size_bytes: int, tags_code: int, queue_offset: int) -> None:
        """Append one entry; nothing happens if the record already has one (fact 46)."""

    def truncate_physical(self, physical_offset: int) -> bool:
        """Forget entries of records at or above `physical_offset`, durably; True if any were."""
        raise NotImplementedError

    def remove_files_before(self, min_physical_offset: int) -> int:
        """Delete files whose every record lies below the log's begin; return how many."""
        raise NotImplementedError

    def dirty_paths(self) -> list[str]:
        """Return the files written since the last call: their data is not yet synced."""
        raise NotImplementedError

    def delete(self) -> None:
        """Remove the queue's files and directory."""
