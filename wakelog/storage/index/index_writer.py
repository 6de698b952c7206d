"""Write a store's index: put keys, roll to a new file when one is full, write back.

Reput runs it, while the Broker reads (`index_service.py`).

Invariants:
- A record's keys are UNIQ_KEY, then each word of KEYS; rolled back records have none (fact 7).
- A record below the end of the index has its keys (fact 6). One exactly at the end may have some of
  them, which are skipped; 4.9.3 puts all again.
- Before each record a full file gets a successor, even if the record has no keys. A new file's
  header starts with its predecessor's end (fact 5).
- A file is whole, seeded and synced before it gets its name.

Source: org.apache.rocketmq.store.index.IndexService (4.9.3).
"""

from collections.abc import Callable
from contextlib import closing
from posixpath import join
from typing import Final

import numpy as np

from wakelog.compiled.layout import PHYSICAL_OFFSET
from wakelog.protocol.properties import split_keys
from wakelog.protocol.sys_flag import TRANSACTION_ROLLBACK, transaction_type
from wakelog.storage.columns.scan_columns import Columns
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.dispatched import IndexEnd
from wakelog.storage.file_system import FileSystem, opened
from wakelog.storage.index.index_append import IndexFileWriter
from wakelog.storage.index.index_file import (
    ENTRY_FIRST,
    HEADER,
    IndexFileReader,
    IndexHeader,
    index_key_hash,
)
from wakelog.storage.index.index_repair import cut_index_file, first_entry_at, repair_index_file
from wakelog.storage.index.index_service import (
    index_name,
    index_names,
    index_shape,
    remove_index_files_before,
)
from wakelog.storage.log.allocate import FilesAhead, sync_name
from wakelog.storage.log.dispatch_request import DispatchRequest

_UNFINISHED_OWNER: Final = "reput"  # whose unfinished files they are, in the store's root


class IndexWriter:
    """The one writer of the index. Call `load` first."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        self._fs = fs
        self._config = config
        self._paths = config.paths
        self._shape = index_shape(config)
        self._names: list[str] = []
        self._file: IndexFileWriter | None = None
        self._known_offset = -1
        self._known_keys = 0
        self._unsynced: set[str] = set()
        self._unsynced_directories: list[str] = []
        self._ahead = FilesAhead(
            fs,
            config.paths.new_file(join(config.paths.root, "index.ahead"), _UNFINISHED_OWNER),
            self._shape.file_bytes,
            count=1,
        )
        self.keys_count = 0
        self.files_made_count = 0

    @property
    def end_physical_offset(self) -> int:
        """Where the last indexed record begins, 0 if nothing is indexed."""
        return 0 if self._file is None else self._file.header.end_physical_offset

    @property
    def end_timestamp_ms(self) -> int:
        """The store time of the last indexed record, 0 if nothing is indexed."""
        return self._header.end_timestamp_ms

    @property
    def files_count(self) -> int:
        """How many files there are."""
        return len(self._names)

    @property
    def _header(self) -> IndexHeader:
        return IndexHeader() if self._file is None else self._file.header

    def load(self) -> None:
        """List the files and open the last."""
        self.close()
        self._ahead.remove()
        self._names = index_names(self._fs, self._paths.index_directory)
        if self._names:
            self._open(self._names[-1])
        self._count_known()

    def mark_unsynced(self, durable: IndexEnd) -> None:
        """Count the files from a durable end on as written and not synced.

        A killed writer may have left them so.
        """
        names = [name for name in self._names if int(name) >= durable.name]
        self._unsynced.update(self._path(name) for name in names)
        if names:
            self._unsynced_directories.append(self._paths.index_directory)

    @property
    def end(self) -> IndexEnd:
        """The newest file and its next entry."""
        if not self._names:
            return IndexEnd()
        return IndexEnd(int(self._names[-1]), self._header.entry_next)

    def cut(
        self,
        durable: IndexEnd,
        physical_offset: int,
        store_time: Callable[[int], int],
        lower: Callable[[IndexEnd], None],
    ) -> bool:
        """Keep the durable entries of records below `physical_offset`; faster than `repair`.

        durable: an end that the index once had, all of it synced; later entries may be torn.
        lower: records a lower end durably, before entries above it are removed.
        Returns: False if that file is gone; then no newer file is left either.
        """
        self.close()
        names = index_names(self._fs, self._paths.index_directory)
        while names and int(names[-1]) > durable.name:
            self._remove_last(names)
        if durable != IndexEnd() and (not names or int(names[-1]) != durable.name):
            return False
        end = self._end_below(names, durable.entry_next, physical_offset)
        if end != durable:
            lower(end)
        while names and int(names[-1]) > end.name:
            self._remove_last(names)
        if names:
            cut_index_file(
                self._fs,
                self._path(names[-1]),
                self._shape,
                entry_next=end.entry_next,
                store_time=store_time,
            )
        self.load()
        return True

    def repair(self, physical_offset: int, store_time: Callable[[int], int]) -> None:
        """Keep exactly the entries of records below `physical_offset`, durably.

        Goes from the newest file down to the first that keeps an entry. Recovery has removed older
        files that may not be durable.
        """
        self.close()
        self._names = index_names(self._fs, self._paths.index_directory)
        while self._names:
            path = self._path(self._names[-1])
            header = repair_index_file(
                self._fs, path, self._shape, physical_offset=physical_offset, store_time=store_time
            )
            if not header.is_empty:
                break
            self._remove_last(self._names)
        self.load()

    def put(self, request: DispatchRequest, now_ms: int) -> None:
        """Index one record's keys, or the next of them: a record may come in parts."""
        file = self._file_with_room(now_ms)
        if request.physical_offset < self.end_physical_offset:
            return
        words = index_words(request)
        if request.physical_offset == self._known_offset:
            known, words = words[: self._known_keys], words[self._known_keys :]
            self._known_keys -= len(known)
        for word in words:
            file = self._file_with_room(now_ms)
            file.put(
                index_key_hash(request.topic, word),
                request.physical_offset,
                request.store_timestamp_ms,
            )
        self.keys_count += len(words)

    def put_columns(self, columns: Columns, now_ms: int) -> None:
        """Index the keys of a compiled scan; the same as `put` for each of its records."""
        count = columns.count
        if count == 0:
            return
        self._file_with_room(now_ms)
        end, row = self.end_physical_offset, 0
        if columns.numbers[0, PHYSICAL_OFFSET] < end:
            row = int(np.searchsorted(columns.numbers[:count, PHYSICAL_OFFSET], end, side="left"))
        if row < count and columns.numbers[row, PHYSICAL_OFFSET] == self._known_offset:
            self.put(columns.request(row), now_ms)
            row += 1
        for begin, stop, request in columns.key_runs(row):
            self.keys_count += stop - begin
            while begin < stop:
                begin = self._file_with_room(now_ms).put_columns(columns, begin, stop)
            if request is not None:
                self.put(request, now_ms)
        if self.end_physical_offset < columns.numbers[count - 1, PHYSICAL_OFFSET]:
            # Records without keys after the last one with keys: one by one, they would have rolled
            # a full file.
            self._file_with_room(now_ms)

    def make_ahead(self) -> None:
        """Build the first file ahead, so that the first message need not wait; in any thread.

        Raises: StoreFull, StoreFailed.
        """
        if not self._names:
            self._ahead.make()

    def remove_ahead(self) -> None:
        """Remove a file that was built ahead and not used."""
        self._ahead.remove()

    def write_back(self) -> None:
        """Write entries, header and slots that are still only in memory."""
        if self._file is not None and self._file.write_back():
            self._unsynced.add(self._file.path)

    def dirty_paths(self) -> list[str]:
        """Return the files written since the last call; the caller has to sync them."""
        dirty, self._unsynced = sorted(self._unsynced), set()
        return dirty

    def take_unsynced_directories(self) -> list[str]:
        """Return the directories with names since the last call that are not yet synced."""
        directories, self._unsynced_directories = self._unsynced_directories, []
        return directories

    def remove_before(self, physical_offset: int) -> int:
        """Delete files that end below the log's begin, never the newest; return how many."""
        removed_count = remove_index_files_before(self._fs, self._config, physical_offset)
        self._names = self._names[removed_count:]
        return removed_count

    def close(self) -> None:
        """Close the open file; what was not written back is lost."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _end_below(self, names: list[str], entry_next: int, physical_offset: int) -> IndexEnd:
        """Return the end of the index without records at or above an offset."""
        for name in reversed(names):
            path = self._path(name)
            kept = first_entry_at(self._fs, path, self._shape, entry_next, physical_offset)
            if kept > ENTRY_FIRST:
                return IndexEnd(int(name), kept)
            entry_next = self._shape.entry_count
        return IndexEnd()

    def _remove_last(self, names: list[str]) -> None:
        self._fs.unlink(self._path(names.pop()))
        self._fs.sync_directory(self._paths.index_directory)

    def _file_with_room(self, now_ms: int) -> IndexFileWriter:
        file = self._file
        if file is None or file.is_full:
            file = self._roll(now_ms)
        return file

    def _roll(self, now_ms: int) -> IndexFileWriter:
        previous = self._header
        self.write_back()
        self.close()
        name = index_name(now_ms)
        if self._names and name <= self._names[-1]:
            # Two files in a millisecond, or a clock that was set back: names must still ascend.
            name = f"{int(self._names[-1]) + 1:017d}"
        self._make(name, previous)
        self._names.append(name)
        return self._open(name)

    def _open(self, name: str) -> IndexFileWriter:
        self._file = IndexFileWriter(self._fs, self._path(name), self._shape)
        return self._file

    def _make(self, name: str, previous: IndexHeader) -> None:
        """Make a file without keys, seeded with its predecessor's end."""
        path, ahead, unsynced = self._path(name), None, None
        if self._names:
            # Only the first name may wait for the next flush: a later one must not survive alone.
            self._fs.sync_directory(self._paths.index_directory)
        else:
            ahead, unsynced = self._ahead.take_file(), self._unsynced_directories
        self._fs.make_directories(self._paths.index_directory, unsynced)
        if ahead is None:
            ahead = self._paths.new_file(path, _UNFINISHED_OWNER)
            self._build(ahead, previous)
        self._fs.rename(ahead, path)
        sync_name(self._fs, path, unsynced)
        self.files_made_count += 1

    def _build(self, path: str, previous: IndexHeader) -> None:
        if self._fs.exists(path):
            self._fs.unlink(path)
        end_ms, end = max(previous.end_timestamp_ms, 0), max(previous.end_physical_offset, 0)
        with opened(self._fs, path, create=True) as fd:
            self._fs.truncate(fd, self._shape.file_bytes)  # sparse, as in 4.9.3
            self._fs.pwrite(fd, HEADER.pack(end_ms, end_ms, end, end, 0, 0), 0)
            self._fs.sync(fd)

    def _path(self, name: str) -> str:
        return join(self._paths.index_directory, name)

    def _count_known(self) -> None:
        """Count the keys that the record at the end of the index already has."""
        self._known_offset, self._known_keys = self.end_physical_offset, 0
        for name in reversed(self._names):
            with closing(IndexFileReader(self._fs, self._path(name), self._shape)) as reader:
                for number in range(reader.header().entry_next - 1, ENTRY_FIRST - 1, -1):
                    if reader.physical_offset_of(number) != self._known_offset:
                        return
                    self._known_keys += 1
        if self._known_keys == 0:
            self._known_offset = -1


def index_words(request: DispatchRequest) -> list[str]:
    """Return the keys of a record in their order; a rolled-back one has none."""
    if transaction_type(request.sys_flag) == TRANSACTION_ROLLBACK:
        return []
    words = [] if request.uniq_key is None else [request.uniq_key]
    return words + split_keys(request.keys or "")
