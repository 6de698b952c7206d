"""Look at a store's files for Retention, and remove what it decided.

Segments of the log are removed by the Retention service itself; the Broker lets go its descriptors
when it is told. Queue files, index files and the queues of a deleted topic are removed in the
process that writes them, with the functions here and those of the writers.

Source: org.apache.rocketmq.store.MappedFileQueue.deleteExpiredFile, DefaultMessageStore
.cleanUnusedTopic (4.9.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import join

from wakelog.storage.commit_log_reader import commit_log_files
from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import store_failure
from wakelog.storage.file_system import DiskUsage, FileSystem
from wakelog.storage.mapped_file_queue import MappedFileQueue
from wakelog.storage.paths import StorePaths
from wakelog.storage.retention import RetentionLook, Segment


def look_at_store(
    fs: FileSystem,
    config: StoreConfig,
    files: MappedFileQueue,
    *,
    hour: int,
    appended: int,
    dispatched: int,
) -> RetentionLook:
    """List the segments and ask how full the disks are. Raises: StoreFailed."""
    files.refresh()
    return RetentionLook(
        segments=[
            Segment(file.start_offset, file.end_offset, file.modified_ms()) for file in files.files
        ],
        hour=hour,
        log_usages=[_usage(fs, path) for path in config.paths.commit_log_directories],
        queue_usage=_usage(fs, config.paths.consume_queue_root),
        appended=appended,
        dispatched=dispatched,
    )


def retention_segments(fs: FileSystem, config: StoreConfig) -> MappedFileQueue:
    """Return the log's segments as Retention holds them: its own, and never written."""
    return commit_log_files(fs, config, read_only=True)


def remove_segment(files: MappedFileQueue, start_offset: int) -> str | None:
    """Remove the oldest segment if it is the one that starts at `start_offset`.

    Return its path, None if it is gone already. Raises: StoreFailed.
    """
    first = files.first
    if first is None or first.start_offset != start_offset:
        return None
    removed = files.remove_before(first.end_offset)
    assert len(removed) == 1, removed
    return removed[0]


def remove_topic(fs: FileSystem, paths: StorePaths, topic: str) -> int:
    """Remove every queue of a topic, extension units included; return how many queues there were.

    Whoever holds the queues' files open closes them first. Nothing outside the topic's own
    directories is touched, and a directory that holds anything else stays.

    Raises: IllegalName, StoreFailed.
    """
    queue_count = 0
    for i, directory in enumerate(paths.topic_directories(topic)):
        queue_names = _names(fs, directory)
        for queue_name in queue_names:
            _remove_files(fs, join(directory, queue_name))
        if i == 0:
            queue_count = len(queue_names)
        if queue_names or fs.exists(directory):
            _remove_directory(fs, directory)
    return queue_count


def _remove_files(fs: FileSystem, directory: str) -> None:
    # The last file first: a crash in between leaves a queue without a gap.
    for name in reversed(_names(fs, directory)):
        try:
            fs.unlink(join(directory, name))
        except OSError as error:
            raise store_failure(join(directory, name), "remove", error) from error
    _remove_directory(fs, directory)


def _remove_directory(fs: FileSystem, directory: str) -> None:
    try:
        fs.remove_directory(directory)
        fs.sync_directory(directory.rpartition("/")[0])
    except OSError as error:
        raise store_failure(directory, "remove", error) from error


def _names(fs: FileSystem, directory: str) -> Sequence[str]:
    try:
        return fs.list_directory(directory)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise store_failure(directory, "list", error) from error


def _usage(fs: FileSystem, path: str) -> DiskUsage | None:
    try:
        return fs.disk_usage(path)
    except OSError:
        return None
