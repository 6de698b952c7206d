"""Read a store's files for Retention, and remove the segments that it chose.

The Retention service removes segments of the log itself; the Broker then closes its descriptors.
The process that writes queue files and index files removes those
(`ConsumeQueueWriter.remove_files_before`, `remove_index_files_before`).

Source: org.apache.rocketmq.store.MappedFileQueue.deleteExpiredFile (4.9.3).
"""

import contextlib
from typing import Final

from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import DiskUsage, FileSystem
from wakelog.storage.log.mapped_file_queue import MappedFileQueue
from wakelog.storage.retention.retention import RetentionInput, Segment

# What one cut of a removed segment frees: about 15 ms of a disk and its journal.
FREED_BYTES_MAX: Final = 64 << 20


def read_retention_input(
    fs: FileSystem,
    config: StoreConfig,
    files: MappedFileQueue,
    *,
    hour: int,
    appended: int,
    dispatched: int,
    leased_from: int | None = None,
) -> RetentionInput:
    """List the segments and read how full the disks are. Raises: StoreFailed."""
    files.refresh()
    return RetentionInput(
        segments=[
            Segment(file.start_offset, file.end_offset, file.modified_ms()) for file in files.files
        ],
        hour=hour,
        log_usages=[_usage(fs, path) for path in config.paths.commit_log_directories],
        queue_usage=_usage(fs, config.paths.consume_queue_root),
        appended=appended,
        dispatched=dispatched,
        leased_from=leased_from,
    )


def remove_segment(fs: FileSystem, files: MappedFileQueue, start_offset: int) -> str | None:
    """Remove the oldest segment if it is the one that starts at `start_offset`, and free its space.

    Return its path, None if it is gone already. Raises: StoreFailed.
    """
    first = files.first
    if first is None or first.start_offset != start_offset:
        return None
    fd = None
    with contextlib.suppress(OSError):  # read only, or a link: then the last close frees it
        fd = fs.open(first.path)
    try:
        removed = files.remove_before(first.end_offset)
        assert len(removed) == 1, removed
        if fd is not None:
            _free(fs, fd, first.size_bytes)
    finally:
        if fd is not None:
            fs.close(fd)
    return removed[0]


def _free(fs: FileSystem, fd: int, size_bytes: int) -> None:
    """Truncate a file without a name to nothing, from its end, a piece at a time.

    The kernel frees a file when the last descriptor is closed. That takes 0.3 s for 1 GiB in the
    page cache, and the last descriptor may be one of the Broker's loop. A reader finds the file
    short, which counts as absent. The name's removal is durable before the first cut, so no crash
    leaves a short segment. A file with another name is a backup and stays whole.
    """
    with contextlib.suppress(OSError):  # then the last close frees it
        if fs.name_count(fd) > 0:
            return
        for length in range(size_bytes - FREED_BYTES_MAX, 0, -FREED_BYTES_MAX):
            fs.truncate(fd, length)
        fs.truncate(fd, 0)


def _usage(fs: FileSystem, path: str) -> DiskUsage | None:
    try:
        return fs.disk_usage(path)
    except OSError:
        return None
