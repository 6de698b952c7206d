"""All files of a store's index: names, removal, and the Broker's queries.

The Broker queries while Reput writes (`index_writer.py`); they share only the files. A file is
named by the local time of its creation, so that names sort in the order of writing.

Invariants:
- The directory is listed at each query: another process makes and removes files.
- Removing old files never removes the newest, whose end is where indexing continues.

Source: org.apache.rocketmq.store.index.IndexService, IndexFile (4.9.3).
"""

import time
from contextlib import closing
from posixpath import join
from typing import NamedTuple

from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_file import (
    IndexFileReader,
    IndexHeader,
    IndexShape,
    index_key_hash,
)
from wakelog.storage.paths import is_index_name


class IndexQuery(NamedTuple):
    """Physical offsets in the order found (newest first), and how far the index goes."""

    physical_offsets: list[int]
    last_update_timestamp_ms: int
    last_update_physical_offset: int


class IndexReader:
    """The Broker's side. One thread at a time."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        self._fs = fs
        self._directory = config.paths.index_directory
        self._shape = index_shape(config)
        self._config = config
        self._open: dict[str, IndexFileReader] = {}

    def query(self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int) -> IndexQuery:
        """Return up to min(count_max, maxMsgsNumBatch) places, not sorted (fact 8)."""
        count_max = min(count_max, self._config.query_count_max)
        key_hash = index_key_hash(topic, key)
        found: list[int] = []
        newest: IndexHeader | None = None
        for reader in self._newest_first():
            header = reader.header()
            if newest is None:
                newest = header
            if header.overlaps(begin_ms, end_ms):
                reader.select(
                    header,
                    key_hash,
                    count_max=count_max,
                    begin_ms=begin_ms,
                    end_ms=end_ms,
                    found=found,
                )
            if header.begin_timestamp_ms < begin_ms or len(found) >= count_max:
                break
        if newest is None:
            return IndexQuery(found, 0, 0)
        return IndexQuery(found, newest.end_timestamp_ms, newest.end_physical_offset)

    def close(self) -> None:
        """Close all files."""
        for reader in self._open.values():
            reader.close()
        self._open.clear()

    def _newest_first(self) -> list[IndexFileReader]:
        names = index_names(self._fs, self._directory)
        for gone in self._open.keys() - set(names):
            self._open.pop(gone).close()
        for name in names:
            if name not in self._open:
                try:
                    path = join(self._directory, name)
                    self._open[name] = IndexFileReader(self._fs, path, self._shape)
                except FileNotFoundError:
                    continue  # removed since it was listed
        return [self._open[name] for name in reversed(names) if name in self._open]


def index_shape(config: StoreConfig) -> IndexShape:
    """Return the configured size of index files."""
    return IndexShape(config.index_slot_count, config.index_entry_count)


def index_name(now_ms: int) -> str:
    """Return the name of an index file made now, in local time as in 4.9.3."""
    moment = time.localtime(now_ms // 1000)
    return f"{time.strftime('%Y%m%d%H%M%S', moment)}{now_ms % 1000:03d}"


def index_names(fs: FileSystem, directory: str) -> list[str]:
    """Return the names of the index files, oldest first; other names are left out."""
    try:
        return [name for name in fs.list_directory(directory) if is_index_name(name)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def remove_index_files_before(fs: FileSystem, config: StoreConfig, physical_offset: int) -> int:
    """Delete files, oldest first and never the newest, that end below the log's begin."""
    names = index_names(fs, config.paths.index_directory)
    removed_count = 0
    for name in names[:-1]:
        if _header(fs, config, name).end_physical_offset >= physical_offset:
            break
        fs.unlink(join(config.paths.index_directory, name))
        removed_count += 1
    return removed_count


def remove_index_files_after(
    fs: FileSystem, config: StoreConfig, timestamp_ms: int
) -> tuple[str, ...]:
    """Delete the first file whose end timestamp is above `timestamp_ms`, and all later ones.

    After a crash 4.9.3 deletes each by its own time. After a clock was set back, later files look
    older and would stay, while indexing resumes at the end of the last one. So they go as well, the
    last one first, durably.
    """
    directory = config.paths.index_directory
    names = index_names(fs, directory)
    young = (
        number
        for number, name in enumerate(names)
        if _header(fs, config, name).end_timestamp_ms > timestamp_ms
    )
    removed = []
    for name in reversed(names[next(young, len(names)) :]):
        path = join(directory, name)
        fs.unlink(path)
        fs.sync_directory(directory)
        removed.append(path)
    return tuple(removed)


def _header(fs: FileSystem, config: StoreConfig, name: str) -> IndexHeader:
    path = join(config.paths.index_directory, name)
    with closing(IndexFileReader(fs, path, index_shape(config))) as reader:
        return reader.header()
