"""Read one consume queue: 20-byte entries that say where a queue's messages lie in the log.

The Broker reads while Reput writes in another process (`consume_queue_writer.py`); they share only
the files. Entry `i` (`entries.py`) lies at byte offset 20 * i over all files.

Invariants:
- Files are pre-sized and zero after the last entry: truncation zeroes what it cuts.
- Physical offsets ascend inside a queue, padding aside. So "written" and "ends at or below a
  watermark" hold for a front part of the queue, whose end a search finds.
- A read never crosses a file's end (4.9.3 hands out one mapped buffer a call).

Source: org.apache.rocketmq.store.ConsumeQueue, MappedFileQueue#getMappedFileByTime (4.9.3).
"""

from collections.abc import Callable
from typing import Final

from wakelog.compiled.layout import ENTRY_BYTES
from wakelog.storage.errors import StoreFailed
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import MappedFile, OpenFiles
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.queue.entries import (
    ENTRY,
    NEAR_COUNT,
    PADDING_SIZE,
    PAGE_BYTES,
    Entry,
    Holds,
    QueueEntry,
    first_not_below,
    front_end,
)

READ_COUNT: Final = 18
"""Places that one read of a search covers, at the cost of one."""


class ColdEntry(Exception):
    """An entry is not in the page cache, and the caller may not wait for the disk."""


class ConsumeQueue:
    """One queue's files, read. `directory` is `paths.consume_queue(...)`; it need not exist."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        *,
        file_bytes: int,
        open_files: OpenFiles,
        read_only: bool = True,
    ) -> None:
        """Touch no file; `refresh` lists them."""
        assert file_bytes % ENTRY_BYTES == 0
        self.directory = directory
        self._fs = fs
        self._file_bytes = file_bytes
        self._files = MappedFileQueue(
            fs, (directory,), file_bytes, read_only=read_only, open_files=open_files
        )

    @property
    def file_entries(self) -> int:
        """How many entries one file holds."""
        return self._file_bytes // ENTRY_BYTES

    @property
    def first_queue_offset(self) -> int:
        """The queue offset of the first file's first place, 0 if there is no file."""
        return self._files.min_offset // ENTRY_BYTES

    @property
    def files_end(self) -> int:
        """The queue offset after the last file's last place, 0 if there is no file."""
        return self._files.max_file_end // ENTRY_BYTES

    def refresh(self) -> bool:
        """List the files again, which another process makes and removes; True if any changed."""
        return self._files.refresh()

    def close(self) -> None:
        """Close all descriptors and forget the files."""
        self._files.close()

    def entries(self, begin: int, count_max: int) -> bytes:
        """Return the bytes of up to `count_max` places from `begin` on, never past one file's end.

        Places that were not written are zeros. b"" if no file holds `begin`.
        """
        found = self.entries_of_known_files(begin, count_max)
        if not found and self._files.refresh():
            found = self.entries_of_known_files(begin, count_max)
        return found

    def entries_nowait(self, begin: int, count_max: int) -> bytes | None:
        """Do what `entries` does if no disk is needed, else return None."""
        file = self._files.find(begin * ENTRY_BYTES)
        if file is None:
            return self.entries(begin, count_max)
        try:
            return file.read_nowait(
                begin * ENTRY_BYTES - file.start_offset, count_max * ENTRY_BYTES
            )
        except StoreFailed as error:
            return _nothing_if_removed(error)

    def entry(self, queue_offset: int) -> QueueEntry | None:
        """Return one entry, None if there is no file or nothing was written."""
        data = self.entries(queue_offset, 1)
        if len(data) < ENTRY_BYTES:
            return None
        entry = QueueEntry._make(ENTRY.unpack(data))
        return entry if entry.size_bytes > 0 else None

    def end_of_written(self, begin: int = 0) -> int:
        """Return the queue offset after the last written entry, at least `begin`.

        begin: the end that an earlier search found.
        """
        return self._end_of_front(begin, lambda entry: entry[1] > 0 and entry[0] >= 0)

    def end_of_readable(self, dispatched: int, begin: int = 0, *, blocking: bool = True) -> int:
        """Return the queue offset after the last entry whose record ends at or below `dispatched`.

        begin: the end that an earlier search found.
        Raises: ColdEntry, unless `blocking`.
        """
        return self._end_of_front(
            begin,
            lambda entry: (
                entry[1] > 0
                and (entry[0] + entry[1] <= dispatched or entry[:2] == (0, PADDING_SIZE))
            ),
            blocking=blocking,
        )

    def min_queue_offset(
        self, min_physical_offset: int, end: int, *, current: int = 0, blocking: bool = True
    ) -> int:
        """Return the first entry of the first file at or above the log's begin (fact 48).

        end: queue offset after the last entry.
        current: the earlier result; it stays if the first file has no such entry.
        Raises: ColdEntry, unless `blocking`.
        """
        first = self._files.first
        if first is None:
            return current
        low = first.start_offset // ENTRY_BYTES
        file_end = min(end, first.end_offset // ENTRY_BYTES)
        found = first_not_below(Places(self, blocking), low, file_end, min_physical_offset)
        return found if found < file_end else current

    def offset_by_time(
        self,
        timestamp_ms: int,
        *,
        end: int,
        min_queue_offset: int,
        min_physical_offset: int,
        store_time: Callable[[int, int], int],
    ) -> int:
        """Return the queue offset whose store time is nearest to `timestamp_ms` (fact 49).

        The file is chosen by its modification time, then bisected. A time before the first entry
        gives the first, one after the last the last. Between two the nearer wins, else the left.

        end: queue offset after the last readable entry.
        store_time: (physical offset, size) to the record's store timestamp, below 0 if unknown;
            then the result is 0.
        """
        self._files.refresh()
        file = self._file_by_time(timestamp_ms)
        if file is None:
            return 0
        start = file.start_offset // ENTRY_BYTES
        low = max(min_queue_offset, start)
        high = min(end, file.end_offset // ENTRY_BYTES) - 1
        if high < start:
            return 0
        left = right = start * ENTRY_BYTES - 1  # what 4.9.3 returns if it saw no entry on that side
        left_time = right_time = -1
        while high >= low:
            middle = start + (low - start + high - start) // 2
            entry = self.entry(middle)
            if entry is None or entry.physical_offset < min_physical_offset:
                low = middle + 1
                left = middle * ENTRY_BYTES
                continue
            time_ms = store_time(entry.physical_offset, entry.size_bytes)
            if time_ms < 0:
                return 0
            if time_ms == timestamp_ms:
                return middle
            if time_ms > timestamp_ms:
                high, right, right_time = middle - 1, middle * ENTRY_BYTES, time_ms
            else:
                low, left, left_time = middle + 1, middle * ENTRY_BYTES, time_ms
        if left_time == -1:
            nearest = right
        elif right_time == -1:
            nearest = left
        else:
            nearest = right if timestamp_ms - left_time > right_time - timestamp_ms else left
        return max(nearest, 0) // ENTRY_BYTES

    def _file_by_time(self, timestamp_ms: int) -> MappedFile | None:
        for file in self._files.files:
            if file.modified_ms() >= timestamp_ms:
                return file
        return self._files.last

    def entries_of_known_files(self, begin: int, count_max: int) -> bytes:
        """Do what `entries` does, without listing the files again."""
        file = self._files.find(begin * ENTRY_BYTES)
        if file is None:
            return b""
        try:
            return file.read(begin * ENTRY_BYTES - file.start_offset, count_max * ENTRY_BYTES)
        except StoreFailed as error:
            return _nothing_if_removed(error)

    def _end_of_front(self, begin: int, holds: Holds, *, blocking: bool = True) -> int:
        """Return the end of the front part of the queue whose entries satisfy `holds`."""
        if begin * ENTRY_BYTES >= self._files.max_file_end:
            self._files.refresh()
        places = Places(self, blocking)
        for file in reversed(self._files.files):
            low, end = max(begin, file.start_offset // ENTRY_BYTES), file.end_offset // ENTRY_BYTES
            found = front_end(places, low, end, holds)
            if found == low and file.is_removed():
                # The queue may have been deleted and made again, with a new file of this name.
                file.release()
                found = front_end(Places(self, blocking), low, end, holds)
            if found > low:
                return found
            if low == begin:
                break
        return max(begin, self.first_queue_offset)


class Places:
    """The places of a queue, for one search; see `entries.Entries`.

    Most searches continue where the last one ended, and end at once. The first read decides that.
    """

    __slots__ = ("_begin", "_blocking", "_data", "_queue")

    def __init__(self, queue: ConsumeQueue, blocking: bool = True) -> None:
        """Read from `queue`, and raise ColdEntry unless `blocking` where the disk is needed."""
        self._queue = queue
        self._blocking = blocking
        self._begin = 0
        self._data = b""

    def at(self, place: int) -> Entry:
        """Return one entry; nothing written where there is no file."""
        position = (place - self._begin) * ENTRY_BYTES
        if not 0 <= position < len(self._data):
            self._data = self._read(place, self._in_page(place, READ_COUNT))
            self._begin, position = place, 0
        whole = position + ENTRY_BYTES <= len(self._data)
        return ENTRY.unpack_from(self._data, position) if whole else (0, 0, 0)

    def some(self, begin: int, count: int) -> list[Entry]:
        """Return up to `count` entries of one file, without the empty ones at their end."""
        position = (begin - self._begin) * ENTRY_BYTES
        end = position + count * ENTRY_BYTES
        known = position >= 0 and end <= len(self._data)
        data = (self._data[position:end] if known else self._read(begin, count)).rstrip(b"\0")
        if not data:
            return []
        whole_bytes = -(-len(data) // ENTRY_BYTES) * ENTRY_BYTES
        return list(ENTRY.iter_unpack(data.ljust(whole_bytes, b"\0")))

    def near_count(self, begin: int) -> int:
        """Return two pages' worth of places; if the search may not wait, some of one page.

        The next page was never read while nothing is written there. Asking for it would make the
        first pull of each page wait.
        """
        return NEAR_COUNT if self._blocking else self._in_page(begin, READ_COUNT - 2)

    def _in_page(self, begin: int, count_max: int) -> int:
        position = begin % self._queue.file_entries * ENTRY_BYTES
        return min(count_max, max(1, (PAGE_BYTES - position % PAGE_BYTES) // ENTRY_BYTES))

    def _read(self, begin: int, count: int) -> bytes:
        if self._blocking:
            return self._queue.entries_of_known_files(begin, count)
        data = self._queue.entries_nowait(begin, count)
        if data is None:
            raise ColdEntry
        return data


def _nothing_if_removed(error: StoreFailed) -> bytes:
    # Retention may remove a file between the listing and the open.
    if isinstance(error.cause, FileNotFoundError):
        return b""
    raise error
