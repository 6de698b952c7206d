"""Reading the commit log by physical offset, in the Broker's process or in any other.

Source: org.apache.rocketmq.store.CommitLog.getMessage, getData (4.9.3).
"""

from __future__ import annotations

from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.mapped_file_queue import MappedFileQueue


class CommitLogReader:
    """Reads records and spans of the log; follows segments that others make and remove."""

    def __init__(
        self, fs: FileSystem, config: StoreConfig, files: MappedFileQueue | None = None
    ) -> None:
        """Read through `files` of the writer in this process, or else through files of its own."""
        raise NotImplementedError

    def read(self, physical_offset: int, size_bytes: int) -> bytes | None:
        """Return exactly [physical_offset, +size_bytes), None if the log does not hold it all."""
        raise NotImplementedError

    def read_nowait(self, physical_offset: int, size_bytes: int) -> bytes | None:
        """Do what `read` does if no disk is needed, else return None."""
        raise NotImplementedError

    def read_span(self, physical_offset: int, length_max: int) -> bytes:
        """Return up to `length_max` bytes, cut at the segment's end; empty if there are none."""
        raise NotImplementedError

    def read_span_into(self, buffer: bytearray | memoryview, physical_offset: int) -> int:
        """Fill `buffer` from `physical_offset`, cut at the segment's end; return the count."""
        raise NotImplementedError

    def segment_end(self, physical_offset: int) -> int:
        """Return the offset behind the segment that `physical_offset` falls into."""
        raise NotImplementedError

    @property
    def min_offset(self) -> int:
        """The first offset of the first segment seen so far."""
        raise NotImplementedError

    def refresh(self) -> bool:
        """Look at the directories again; True if segments came or went."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the descriptors if they are this reader's own."""
        raise NotImplementedError
