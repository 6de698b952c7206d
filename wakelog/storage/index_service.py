"""The index files of a store: which to write, which to ask.

Source: org.apache.rocketmq.store.index.IndexService (4.9.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wakelog.storage.config import StoreConfig
from wakelog.storage.dispatch_request import DispatchRequest
from wakelog.storage.file_system import FileSystem


def index_key_hash(topic: str, key: str) -> int:
    """Return abs(Java hash of "topic#key"), 0 for the one value without a positive (fact 2)."""
    raise NotImplementedError


class IndexQuery(NamedTuple):
    """Physical offsets in the order found (newest first), and how far the index goes."""

    physical_offsets: list[int]
    last_update_timestamp_ms: int
    last_update_physical_offset: int


class IndexReader:
    """The Broker's side: queries; follows files that Reput makes and Retention removes."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        """Open nothing yet."""

    def query(self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int) -> IndexQuery:
        """Return up to min(count_max, maxMsgsNumBatch) places, not sorted (fact 8)."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all files."""


class IndexWriter:
    """Reput's side: puts keys, rolls to a new file, writes back, repairs after a kill."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        """Open nothing yet."""

    def load(self) -> None:
        """List the files and open the last."""

    def repair(self, physical_offset: int, store_time: Callable[[int], int]) -> None:
        """Keep exactly the entries of records below `physical_offset`; slots are made again."""

    @property
    def end_physical_offset(self) -> int:
        """Where the last indexed record begins, 0 if nothing is indexed."""
        raise NotImplementedError

    def put(self, request: DispatchRequest, now_ms: int) -> None:
        """Index a record's UNIQ_KEY, then each word of KEYS (facts 5 to 7)."""

    def write_back(self) -> None:
        """Write entries, header and slots that are still only in memory."""

    def close(self) -> None:
        """Write back and close."""


def remove_index_files_before(fs: FileSystem, config: StoreConfig, physical_offset: int) -> int:
    """Delete files, never the last, whose end lies below the log's begin; return how many."""
    raise NotImplementedError


def remove_index_files_after(
    fs: FileSystem, config: StoreConfig, timestamp_ms: int
) -> tuple[str, ...]:
    """Delete files whose end timestamp is above the checkpoint's, as an abnormal start does."""
    raise NotImplementedError
