"""Write one consume queue: append, recover and truncate its 20-byte entries.

There is one writer at a time: recovery before the broker serves, then Reput. Entries gather in
memory. `write_pending` writes them, with one write for each file. A run that only follows what is
written, where blocks are reserved, is written at once: with many queues most are one entry.

A record goes to the next free place, whatever its own queue offset, as in 4.9.3:

    the record                                          what happens
    ends at or below `max_physical_offset`              nothing: it has an entry (fact 46); one
                                                        that a kill tore is written again
    the same, but belongs to the next free place and    next free place: the last entry is
    has no entry                                        damaged
    is the first of the queue                           padding up to its place in the first file
    states a queue offset of 0                          next free place
    states one below the next free place                nothing: the place is taken
    states one above, some records before it are lost   the gap gets entries of this record too

The last line is ours. 4.9.3 takes the next free place; from then on places and queue offsets
differ, and consumers commit wrong offsets. With `fill_gaps=False` we do the same. A gap of more
than GAP_ENTRIES_MAX is never filled: a damaged queue offset must not fill the disk.

With an extension each record that gets an entry gets a unit too, whose address the entry has.

Invariants:
- `max_physical_offset` and `max_queue_offset` count what was put, written or not.
- A unit is written before the entry that points to it.
- After `recover` and `truncate_physical` every byte after the last entry is zero on the disk.

Source: org.apache.rocketmq.store.ConsumeQueue (4.9.3). There, recovery and truncation only move
positions in memory. A queue of nothing but padding gets a maximum of 2 GiB. A queue whose first
file was made but not written starts at the wrong place.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from wakelog.compiled.layout import ENTRY_BYTES
from wakelog.storage.errors import store_errors
from wakelog.storage.file_system import Buffer, FileSystem
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.queue.consume_queue import ConsumeQueue, Places
from wakelog.storage.queue.consume_queue_ext import (
    EXTENSION_ADDRESS_MAX,
    ConsumeQueueExtWriter,
    is_extension_address,
)
from wakelog.storage.queue.crash_end import ENTRY_DTYPE, crash_end
from wakelog.storage.queue.entries import ENTRY, NEAR_COUNT, PADDING_ENTRY, QueueEntry, end_below
from wakelog.storage.queue.growing_files import GrowingFiles

# One file of the default size. A longer gap would be a lost segment, or a damaged number.
GAP_ENTRIES_MAX: Final = 300_000
# One file after such a queue offset, the byte offset is still a Java long.
QUEUE_OFFSET_MAX: Final = (1 << 62) // ENTRY_BYTES
RECOVER_FILE_COUNT: Final = 3

Array = np.ndarray[Any, Any]


class ConsumeQueueWriter(ConsumeQueue):
    """The one writer of a queue. Call `recover` first."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        *,
        file_bytes: int,
        open_files: OpenFiles,
        make_file: Callable[[str, int], None],
        fill_gaps: bool = True,
        extension: ConsumeQueueExtWriter | None = None,
    ) -> None:
        """Keep `make_file(path, size_bytes)`, which makes a zeroed file and its directory."""
        super().__init__(
            fs, directory, file_bytes=file_bytes, open_files=open_files, read_only=False
        )
        self._growing = GrowingFiles(fs, self._files, make_file)
        self._fill_gaps = fill_gaps
        self._extension = extension
        self._pending: list[Buffer] = []
        self._pending_begin = 0
        self.max_physical_offset = -1
        self.max_queue_offset = 0
        self.begin_without_entries: int | None = None
        self.repeated_count = self.gaps_count = self.refused_count = self.mended_count = 0

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories of its files, and of its units."""
        if self._extension is None:
            return (self.directory,)
        return self.directory, self._extension.directory

    def recover(
        self,
        *,
        after_crash: bool = False,
        durable: int = 0,
        synced: set[str] | None = None,
        is_durable: bool = False,
    ) -> None:
        """Find the last entry and zero durably what lies after it.

        after_crash: check each entry of the last three files, as 4.9.3 does; else bisect, which is
            enough after a killed process.
        durable: entries of records that end at or below were durable before the crash.
        synced: directories that need no sync any more; gets those that are synced here.
        is_durable: the files are durable as they are, or count as unsynced.
        Sets `begin_without_entries` to the first place of a queue that has files but no entries.
        Its first file stays, so that the next start sees the loss as well.
        """
        self._growing.load()
        begin_without_entries = self.first_queue_offset if self._files.files else None
        if after_crash:
            self._reread_from_disk(set() if synced is None else synced)
            end = crash_end(self._files.files[-RECOVER_FILE_COUNT:], durable)
        else:
            end = self.end_of_written()
        is_durable = is_durable or after_crash
        end = self.files_end if end is None else end
        self._set_end(end, keep_blank=True, is_durable=is_durable)
        self.begin_without_entries = begin_without_entries if self._is_empty else None
        if self._extension is not None:
            self._extension.recover(self._last_address())

    def put(
        self,
        physical_offset: int,
        size_bytes: int,
        tags_code: int,
        queue_offset: int,
        *,
        unit: tuple[int, bytes] | None = None,
    ) -> None:
        """Append one entry, or do what the table above says.

        unit: store time and bitmap for the extension, if there is one.
        """
        entry = ENTRY.pack(physical_offset, size_bytes, tags_code)
        missing = self._place(physical_offset + size_bytes, queue_offset, entry)
        if missing is None:
            return
        if unit is not None and self._extension is not None:
            address = self._extension.put(tags_code, *unit)
            if address is not None:
                entry = ENTRY.pack(physical_offset, size_bytes, address)
        self._append(entry * (missing + 1), missing + 1)
        self.max_physical_offset = physical_offset + size_bytes

    def put_run(
        self,
        entries: Buffer,
        *,
        queue_offset: int,
        physical_offset: int,
        physical_offset_end: int,
    ) -> bool:
        """Append entries of successive queue offsets if they follow the last one.

        queue_offset, physical_offset: of the first; physical_offset_end: of the last.
        Returns: False if they do not; then nothing was done: call `put_column`.
        Raises: StoreFailed, StoreFull, with nothing put.
        """
        if queue_offset != self.max_queue_offset or queue_offset == 0:
            return False
        if physical_offset < self.max_physical_offset:
            return False
        end = None if self._pending else self._growing.write_reserved(self._pending_begin, entries)
        if end is None:
            # A copy: the caller fills its columns again before a failed write is repeated.
            self._pending.append(bytes(entries))
        else:
            self._pending_begin = end
        self.max_queue_offset += len(entries) // ENTRY_BYTES
        self.max_physical_offset = physical_offset_end
        return True

    def put_column(
        self,
        entries: Buffer,
        *,
        physical_offsets: Array,
        sizes: Array,
        tags_codes: Array,
        queue_offsets: Array,
    ) -> None:
        """Append many entries, in log order; `entries` has them encoded.

        The result is that of `put` for each, which is called where the column has a break.
        """
        ends, count = physical_offsets + sizes, len(sizes)
        breaks = np.flatnonzero(np.diff(queue_offsets) != 1) + 1
        view = memoryview(entries)

        def put_one(i: int) -> None:
            self.put(
                int(physical_offsets[i]), int(sizes[i]), int(tags_codes[i]), int(queue_offsets[i])
            )

        at = int(np.searchsorted(ends, self.max_physical_offset, side="right"))
        if at and self._holds(view[: at * ENTRY_BYTES], queue_offsets[:at]):
            self.repeated_count += at
        else:
            for i in range(at):
                put_one(i)
        while at < count:
            later = np.searchsorted(breaks, at, side="right")
            run_end = int(breaks[later]) if later < len(breaks) else count
            if self.put_run(
                view[at * ENTRY_BYTES : run_end * ENTRY_BYTES],
                queue_offset=int(queue_offsets[at]),
                physical_offset=int(physical_offsets[at]),
                physical_offset_end=int(ends[run_end - 1]),
            ):
                at = run_end
            else:
                put_one(at)
                at += 1

    def write_pending(self) -> None:
        """Write what was put, and make missing files."""
        if not self._pending:
            return
        if self._extension is not None:
            self._extension.write_pending()
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        end = self._growing.write(self._pending_begin, data)
        # Only now: after a failed write the same entries are written again at the same places.
        self._pending = []
        self._pending_begin = end

    def truncate_physical(self, physical_offset: int) -> bool:
        """Remove durably the entries of records at or above an offset; True if there were any."""
        self.write_pending()
        begin, end = self.first_queue_offset, self.max_queue_offset
        kept = end_below(Places(self), begin, end, physical_offset)
        if kept == end:
            return False
        self._set_end(kept)
        if self._extension is not None:
            self._extension.truncate(self._last_address())
        return True

    def has_entry_below(self, physical_offset: int) -> bool:
        """Tell whether it has an entry of a record that begins below an offset."""
        begin = self.first_queue_offset
        kept = end_below(Places(self), begin, self.max_queue_offset, physical_offset)
        entry = self.entry(kept - 1) if kept > begin else None
        return entry is not None and not entry.is_padding

    def mark_expired(self, physical_offset: int) -> None:
        """Give a queue whose records have expired one entry below the log's begin, durably.

        It has a file but no entries. Its numbers continue after that entry, and later starts do not
        search the log for its records. Raises: StoreFailed, StoreFull.
        """
        assert self._is_empty and self._files.last is not None, self.directory
        self._append(ENTRY.pack(physical_offset - 1, 1, 0), 1)
        self.max_physical_offset = physical_offset
        self.write_pending()
        self._files.last.datasync()

    def remove_files_before(self, min_physical_offset: int) -> int:
        """Delete files whose every record lies below the log's begin, never the last file."""
        cut = 0
        for file in self._files.files[:-1]:
            # The last entry decides, unless it is damaged: then one near it.
            end = file.end_offset // ENTRY_BYTES
            begin = max(file.start_offset // ENTRY_BYTES, end - NEAR_COUNT)
            if any(
                min_physical_offset <= entry[0] <= self.max_physical_offset - entry[1]
                for entry in Places(self).some(begin, end - begin)
            ):
                break
            cut = file.end_offset
        removed_count = len(self._files.remove_before(cut))
        if self._extension is not None:
            first = self.min_queue_offset(min_physical_offset, self.max_queue_offset)
            entry = self.entry(first)
            if entry is not None and is_extension_address(entry.tags_code):
                removed_count += self._extension.remove_before(entry.tags_code)
        return removed_count

    def mark_unsynced(self, physical_offset: int) -> None:
        """Count files with entries from this offset on as written and not synced.

        A killed writer may have left them so.
        """
        for file in reversed(self._files.files):
            self._growing.dirty.add(file.path)
            first_physical_offset, _, _ = Places(self).at(file.start_offset // ENTRY_BYTES)
            if first_physical_offset < physical_offset:
                break
        if self._extension is not None:
            self._extension.mark_unsynced()

    def dirty_paths(self) -> list[str]:
        """Return the files written since the last call; the caller has to sync them."""
        dirty = self._growing.take_dirty()
        if self._extension is not None:
            dirty += self._extension.dirty_paths()
        return dirty

    def close(self) -> None:
        """Close all descriptors and forget the files, those of the units too."""
        super().close()
        if self._extension is not None:
            self._extension.close()

    def delete(self) -> None:
        """Remove the queue's files and its directory; those of its units stay.

        Raises: StoreFailed.
        """
        if self._extension is not None:
            self._extension.close()
        self._pending = []
        self._growing.dirty.clear()
        self._files.truncate(0)
        if self._fs.exists(self.directory):
            with store_errors(self.directory, "remove"):
                self._fs.remove_directory(self.directory)
        self._set_empty()

    def _reread_from_disk(self, synced: set[str]) -> None:
        """Sync the last files and their names, and drop the files from the page cache.

        After a kill the page cache alone may have the names. After a failed sync it shows data that
        the disk never got.
        """
        if not self._files.files:
            return
        topic = self.directory.rpartition("/")[0]
        for directory in (topic.rpartition("/")[0], topic, self.directory):
            if directory in synced:
                continue
            with store_errors(directory, "sync"):
                self._fs.sync_directory(directory)
            synced.add(directory)
        for file in self._files.files[-RECOVER_FILE_COUNT:]:
            file.reread_from_disk()

    def _place(self, physical_offset_end: int, queue_offset: int, entry: bytes) -> int | None:
        """Find the place of an entry by the module's table.

        Returns: how many places before it get the same entry, None if the record gets none.
        """
        if physical_offset_end <= self.max_physical_offset and not (
            queue_offset == self.max_queue_offset and self._is_last_damaged(entry)
        ):
            self.repeated_count += 1
            self._mend(queue_offset, entry)
            return None
        if not 0 <= queue_offset <= QUEUE_OFFSET_MAX:
            self.refused_count += 1
            return None
        if self._is_empty:
            self._start_at(queue_offset)
            return 0
        missing = queue_offset - self.max_queue_offset if queue_offset else 0
        if missing < 0:
            self.repeated_count += 1
            return None
        self.gaps_count += missing > 0
        return missing if self._fill_gaps and missing <= GAP_ENTRIES_MAX else 0

    def _is_last_damaged(self, entry: bytes) -> bool:
        """Tell whether the last entry is damaged: it is above `entry`, whose record has none.

        Entries ascend. A damaged one hides its own record, not those that follow.
        """
        self.write_pending()
        physical_offset = ENTRY.unpack(entry)[0]
        places, end = Places(self), self.max_queue_offset
        place = end_below(places, self.first_queue_offset, end, physical_offset)
        return place == end or places.at(place)[0] != physical_offset

    def _mend(self, queue_offset: int, entry: bytes) -> None:
        # A kill during a write can leave an entry without its tags code. Only the record shows it.
        file = self._files.find(queue_offset * ENTRY_BYTES)
        if file is None or queue_offset * ENTRY_BYTES >= self._pending_begin:
            return
        position = queue_offset * ENTRY_BYTES - file.start_offset
        stored = file.read(position, ENTRY_BYTES)
        if len(stored) < ENTRY_BYTES or is_extension_address(ENTRY.unpack(stored)[2]):
            return  # an entry with a unit that could be torn was cut and made again
        if stored != entry and stored[:8] == entry[:8]:
            file.write(position, entry)
            self._growing.dirty.add(file.path)
            self.mended_count += 1

    def _holds(self, entries: memoryview, queue_offsets: Array) -> bool:
        """Tell whether these places already have these entries."""
        begin, count = int(queue_offsets[0]), len(queue_offsets)
        if begin < 0 or queue_offsets[-1] - begin != count - 1:
            return False
        at = 0
        while at < count:
            stored = self.entries(begin + at, count - at)
            if not stored or entries[at * ENTRY_BYTES :][: len(stored)] != stored:
                return False
            at += len(stored) // ENTRY_BYTES
        return True

    @property
    def _is_empty(self) -> bool:
        return self.max_physical_offset < 0

    def _start_at(self, queue_offset: int) -> None:
        # An empty queue's files may lie elsewhere: made and never written, or truncated.
        file_begin = queue_offset - queue_offset % self.file_entries
        if self._files.last is not None and self._files.min_offset != file_begin * ENTRY_BYTES:
            self._files.truncate(0)
        self.max_queue_offset = file_begin
        self._pending_begin = file_begin * ENTRY_BYTES
        if queue_offset > file_begin:
            self._append(PADDING_ENTRY * (queue_offset - file_begin), queue_offset - file_begin)

    def _append(self, entries: Buffer, count: int) -> None:
        self._pending.append(entries)
        self.max_queue_offset += count

    def _set_end(
        self, queue_offset: int, *, keep_blank: bool = False, is_durable: bool = False
    ) -> None:
        """Make `queue_offset` the next free place; zero what follows, and drop mere padding.

        keep_blank: keep the first file of a queue without entries. is_durable: as in `recover`.
        """
        last = None
        if queue_offset > self.first_queue_offset:
            last = QueueEntry._make(Places(self).at(queue_offset - 1))
        if last is None or last.is_padding:
            begin = self._files.min_offset
            self._files.truncate(begin, keep_empty=keep_blank, is_durable=is_durable)
            self._set_empty()
            return
        self._files.truncate(queue_offset * ENTRY_BYTES, is_durable=is_durable)
        self.max_queue_offset = queue_offset
        self._pending_begin = queue_offset * ENTRY_BYTES
        self.max_physical_offset = last.physical_offset + last.size_bytes

    def _set_empty(self) -> None:
        self.max_physical_offset = -1
        self.max_queue_offset = self.first_queue_offset
        self._pending_begin = self.max_queue_offset * ENTRY_BYTES

    def _last_address(self) -> int | None:
        """Return the address of the last entry that has a unit, None if none has.

        Units may be switched on for a while, and again later, so three files are not enough.
        """
        for file in reversed(self._files.files):
            end = min(self.max_queue_offset * ENTRY_BYTES, file.end_offset) - file.start_offset
            if end > 0:
                entries = np.frombuffer(file.read(0, end), ENTRY_DTYPE)
                found = np.flatnonzero(entries["tags_code"] <= EXTENSION_ADDRESS_MAX)
                if len(found):
                    return int(entries["tags_code"][found[-1]])
        return None
