"""One index file: header, hash slots, entries.

Source: org.apache.rocketmq.store.index.IndexFile, IndexHeader (4.9.3).
"""

from __future__ import annotations

from typing import NamedTuple

from wakelog.storage.file_system import FileSystem


class IndexHeader(NamedTuple):
    """The 40 bytes at the front."""

    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_physical_offset: int
    end_physical_offset: int
    slot_used_count: int
    entry_next: int  # starts at 1: entry 0 is never used


class IndexFileReader:
    """Reads what another process writes; keeps no state but the descriptor."""

    def __init__(self, fs: FileSystem, path: str, *, slot_count: int, entry_count: int) -> None:
        """Open the file read only."""

    def header(self) -> IndexHeader:
        """Read the header."""
        raise NotImplementedError

    def select(
        self, key_hash: int, count_max: int, begin_ms: int, end_ms: int, found: list[int]
    ) -> None:
        """Append physical offsets of matching entries to `found`, newest first, up to count_max."""

    def close(self) -> None:
        """Close the file."""
