"""Repair the consume queues of a store that is being recovered: cut what the log does not back.

Runs before Reput has a queue open. An entry that is missing is not made here: Reput makes it,
starting where the recovery report says.

Source: org.apache.rocketmq.store.DefaultMessageStore.loadConsumeQueue, recoverConsumeQueue,
truncateDirtyLogicFiles, recoverTopicQueueTable (4.9.3).
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from posixpath import join

from wakelog.storage.config import StoreConfig
from wakelog.storage.errors import IllegalName, store_failure
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.paths import StorePaths, parse_queue_id
from wakelog.storage.queue.consume_queue_writer import ConsumeQueueWriter


class QueueRepair:
    """Every consume queue of one store."""

    def __init__(self, fs: FileSystem, config: StoreConfig) -> None:
        """Find the queues; their files are not read yet."""
        open_files = OpenFiles()
        self._queues = {
            key: ConsumeQueueWriter(
                fs,
                config.paths.consume_queue(*key),
                file_bytes=config.consume_queue_bytes,
                open_files=open_files,
                make_file=_no_file,
            )
            for key in list_queues(fs, config.paths)
        }

    def cut_unwritten(self, *, after_crash: bool, durable: int = 0) -> None:
        """Cut each queue behind its last written entry.

        after_crash: check every entry of the last files, which the crash may have torn.
        durable: but those of records that end at or below were durable before.
        """
        for queue in self._queues.values():
            queue.recover(after_crash=after_crash, durable=durable)

    @property
    def blank(self) -> dict[QueueKey, int]:
        """Where each queue begins that had files and no entry in them: a file is made for one."""
        found = ((key, queue.blank_from) for key, queue in self._queues.items())
        return {key: begin for key, begin in found if begin is not None}

    def settle_unused(self, used: Container[QueueKey], log_begin: int) -> None:
        """Settle queues without an entry, and of no record of the whole log: they have lost none.

        Else each start would look through the log for what they may have lost. One that never had
        an entry goes. One that begins further behind keeps its numbers: its records were in front
        of the log's begin. Raises: StoreFailed, StoreFull.
        """
        for key, begin in self.blank.items():
            if key in used:
                continue
            if begin == 0:
                self._queues.pop(key).delete()
            elif log_begin > 0:
                self._queues[key].note_expired(log_begin)

    def cut_at(self, log_end: int) -> tuple[QueueKey, ...]:
        """Forget entries of records that the log no longer has; return the queues that had some."""
        return tuple(key for key, queue in self._queues.items() if queue.truncate_physical(log_end))

    @property
    def max_physical_offset(self) -> int:
        """How far dispatch came, as the queues say: 4.9.3's place to go on; -1 without entries."""
        return max((queue.max_physical_offset for queue in self._queues.values()), default=-1)

    def next_offsets(self, ends: dict[QueueKey, int]) -> dict[QueueKey, int]:
        """Return the next queue offset of each queue, by its entries and by the log's records."""
        table = {key: queue.max_queue_offset for key, queue in self._queues.items()}
        for key, next_offset in ends.items():
            # An entry whose record is damaged still takes its place.
            table[key] = max(next_offset, table.get(key, 0))
        return table

    def close(self) -> None:
        """Close the queues' files."""
        for queue in self._queues.values():
            queue.close()


def list_queues(fs: FileSystem, paths: StorePaths) -> Iterator[QueueKey]:
    """Yield topic and queue id of every consume queue directory; other names are passed over."""
    root = paths.consume_queue_root
    for topic in _names(fs, root):
        for name in _names(fs, join(root, topic)):
            queue_id = parse_queue_id(name)
            try:
                if queue_id is not None:
                    paths.consume_queue(topic, queue_id)
                    yield topic, queue_id
            except IllegalName:
                continue


def _names(fs: FileSystem, directory: str) -> list[str]:
    try:
        return fs.list_directory(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise store_failure(directory, "list", error) from error


def _no_file(path: str, size_bytes: int) -> None:
    raise AssertionError(f"recovery makes no queue file: {path}, {size_bytes} bytes")
