"""The log's segments as recovery needs them: load them, reread them from the disk, check records.

`load_segments` completes a short last segment. A segment that is missing in front of written ones
is damage, because later ones were durable. Such a log is neither cut nor appended to; a
`MissingFile` takes the place of each missing segment.

`store_time_below` checks the records just below a position. Without it, a recovery that begins at a
durable position would miss that the tail below it is gone. That happens on a disk that lost synced
data, in a copy of a running store, or after a broker that left no other trace.

Invariant: `store_time_below` reads at most 17 MiB, mostly 64 KiB, whatever the log's length.

Source: org.apache.rocketmq.store.MappedFileQueue.load (4.9.3). It refuses any file of another
length, even one that its own kill left, and does not look for gaps.
"""

from posixpath import dirname
from typing import Final

from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import DamagedStore, store_errors
from wakelog.storage.file_system import FileSystem, opened
from wakelog.storage.log import record_walk
from wakelog.storage.log.commit_log_reader import commit_log_files
from wakelog.storage.log.mapped_file import MappedFile
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.log.record_check import CheckKind, RecordCheck

_PIECE_BYTES: Final = 8 << 20


def load_segments(fs: FileSystem, config: StoreConfig, *, bridge: bool = True) -> MappedFileQueue:
    """Load the log's segments, completing a short last one.

    bridge: put a `MissingFile` in the place of each segment that is missing in front of written
        ones.

    Raises: DamagedStore when some are missing and not bridged; StoreFailed.
    """
    files = commit_log_files(fs, config)
    loaded = files.load()
    if loaded.gap_after is not None:
        written = [path for path in loaded.beyond_gap if not _is_blank(fs, path)]
        if not written:
            # Segments made ahead of need can follow a gap where the one before was not made.
            for path in reversed(loaded.beyond_gap):
                with store_errors(path, "remove"):
                    fs.unlink(path)
                    fs.sync_directory(dirname(path))
            loaded = files.load()
        elif bridge:
            loaded = files.load(bridge=True)
        else:
            raise DamagedStore(
                written[-1],
                f"the segment at {loaded.gap_after} before it is missing",
                "put the missing segment back, or move the later ones away",
            )
    if loaded.short_last is not None:
        files.extend_short_last(loaded.short_last)
    return files


def reread_from_disk(fs: FileSystem, files: MappedFileQueue, physical_offset: int) -> None:
    """Sync the log above `physical_offset` and its names, and drop them from the page cache.

    After a failed sync the page cache shows records that the disk never got, as clean pages. After
    a kill the page cache alone may have a segment's name.

    Raises: StoreFailed.
    """
    for directory in sorted({dirname(file.path) for file in files.files}):
        with store_errors(directory, "sync"):
            fs.sync_directory(directory)
    for file in files.files:
        if file.end_offset > physical_offset:
            file.reread_from_disk()
            if file is not files.last:
                file.release()


def sync_segments(files: MappedFileQueue, physical_offset: int) -> None:
    """Sync every segment that reaches above `physical_offset`. Raises: StoreFailed."""
    for file in files.files:
        if file.end_offset > physical_offset:
            file.datasync()
            if file is not files.last:
                file.release()  # a long log has more segments than a process has descriptors


def check_in_segment(file: MappedFile, position: int) -> RecordCheck:
    """Check a place that may hold no record, with its body. Raises: StoreFailed."""
    return record_walk.check_at(
        _reader(file),
        file.start_offset + position,
        file.end_offset,
        segment_end=file.end_offset,
        check_body=True,
    )


def next_sound_in(file: MappedFile, begin: int, end: int) -> tuple[int, int] | None:
    """Return physical offset and store time of the first sound record that begins in a stretch.

    begin, end: positions in the file. Bodies are checked. Raises: StoreFailed.
    """
    if file.is_missing:
        return None
    found = record_walk.next_sound(
        _reader(file),
        file.start_offset + begin,
        file.start_offset + end,
        readable_end=file.end_offset,
        segment_end=file.end_offset,
        check_body=True,
        skip_unwritten=lambda at: file.start_offset + file.next_data(at - file.start_offset),
    )
    return None if found is None else (found[0], found[1].store_timestamp_ms)


def _reader(file: MappedFile) -> record_walk.Read:
    return lambda physical_offset, bytes_max: file.read(
        physical_offset - file.start_offset, bytes_max
    )


def _is_blank(fs: FileSystem, path: str) -> bool:
    with store_errors(path, "read"), opened(fs, path, read_only=True) as fd:
        position = fs.next_data(fd, 0)
        while position is not None:
            data = fs.pread(fd, _PIECE_BYTES, position)
            if data.strip(b"\0"):
                return False
            position = fs.next_data(fd, position + len(data)) if data else None
        return True


CHECKED_BYTES: Final = 64 << 10
"""Some dozens of records: more than a disk has in one page, less than a millisecond of reading."""
CHECKED_SHARE: Final = 8
"""At most this part of a small segment is checked, unless it holds no whole record."""
CHECKED_BYTES_MAX: Final = 16 << 20
"""Four times the default's longest message. After a longer one recovery goes by times."""
_WIDER: Final = 16  # so many times as much is searched next if no record was found


def store_time_below(files: MappedFileQueue, physical_offset: int) -> int | None:
    """Return the store time of the record that ends at `physical_offset`.

    Each record in front of it must follow the one before. A blank may lie between. Returns 0 where
    the log begins, and None if the records below are damaged or end elsewhere. Raises: StoreFailed.
    """
    if physical_offset <= files.min_offset:
        return 0
    file = files.find(physical_offset - 1)
    assert file is not None, physical_offset
    end = physical_offset - file.start_offset
    length = min(CHECKED_BYTES, file.size_bytes // CHECKED_SHARE)
    while True:
        begin = max(end - length, 0)
        found = next_sound_in(file, begin, end)
        if found is not None:
            return _last_time(file, found[0] - file.start_offset, end)
        if begin == 0 or length >= CHECKED_BYTES_MAX:
            return None
        length *= _WIDER


def _last_time(file: MappedFile, begin: int, end: int) -> int | None:
    """Check the records of a segment from `begin` on; return the time of the one before `end`."""
    position, store_timestamp_ms = begin, 0
    while position < end:
        check = check_in_segment(file, position)
        if check.kind is CheckKind.END_OF_FILE and end == file.size_bytes:
            return store_timestamp_ms
        if check.kind is not CheckKind.SOUND:
            return None
        store_timestamp_ms = check.store_timestamp_ms
        position += check.size_bytes
    return store_timestamp_ms if position == end else None
