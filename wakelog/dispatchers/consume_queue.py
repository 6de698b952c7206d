"""Builds the consume queues: one entry for each message that consumers may see.

`queue_entries.py` decides which entry goes into which queue. A record whose topic cannot be part of
a path is counted and left out. Only the log of another broker has such records.

Invariants:
- After `dispatch` every entry of the batch is in its file. Readers in other processes find it as
  soon as the watermark covers it.
- A queue's files are made in one step, outside the data folders first; some are made ahead.
- A queue that no record came for since the start is not opened, if `open_later` was called. So a
  start takes no longer with thousands of queues.
- The files of queues that are new in one batch are made together, FILES_TOGETHER_MAX at a time: a
  disk syncs many in little more time than one.
- The name of a queue's first file is durable after the next flush. So a first message waits for no
  sync of a file and three directories. A later file is made only when the names before it are
  durable, and its own name is durable at once: a queue without its first file would look trimmed.

Source: org.apache.rocketmq.store.DefaultMessageStore.CommitLogDispatcherBuildConsumeQueue (4.9.3).
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from posixpath import dirname, join
from typing import Final, NamedTuple

from wakelog.dispatchers.dispatcher import DispatchBatch, FlushPart
from wakelog.dispatchers.queue_entries import EntryPlacement
from wakelog.dispatchers.sync_files import sync_directories
from wakelog.storage.config import StoreConfig
from wakelog.storage.durability.deleted_topics import (
    DeletedTopics,
    QueueRemoval,
    remove_if_empty,
    remove_units,
)
from wakelog.storage.durability.dispatched import read_dispatched
from wakelog.storage.errors import IllegalName, StoreError
from wakelog.storage.file_system import FileSystem, names_in, process_descriptors_max
from wakelog.storage.log.allocate import FilesAhead, clean_unfinished, make_segment
from wakelog.storage.log.mapped_file import OpenFiles, open_files_allowed
from wakelog.storage.log.queue_offsets import QueueKey
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExtWriter
from wakelog.storage.queue.consume_queue_writer import ConsumeQueueWriter
from wakelog.storage.recovery.queues import list_queues

FILE_OWNER: Final = "reput"  # part of the names of unfinished files in the store's root
# Clients make a new topic with four queues.
FILES_AHEAD_COUNT: Final = 4

FILES_TOGETHER_MAX: Final = 64
"""As many descriptors are open then; a process that may open few makes fewer files at once. With it
16,000 new queues are made three times as fast as with one file at a time (docs/overload.md)."""

OPEN_FILES_MAX: Final = 16_384
"""Of the files that were written last. To open and close one takes longer than to write an entry,
so that each queue to which messages come should keep its own."""

OWN_SHARE: Final = 4
"""In a process of its own these files get so many times what `OpenFiles` allows: half of the
descriptors. No sockets of clients are there."""

DISPATCHED_AGAIN_BYTES_MAX: Final = 64 << 20
"""Where more would have to be dispatched again, `recover` opens all queues instead: some tenths of
a second, as long as thousands of queues take."""


class StaleQueues(NamedTuple):
    """Queues of a slave with entries of records that its master has deleted.

    again_from: the lowest offset from which they have newer records too, None if none has.
    """

    keys: list[QueueKey]
    again_from: int | None


class ConsumeQueueDispatcher:
    """Writes all consume queues of one store."""

    name = "consume_queue"

    def __init__(
        self,
        fs: FileSystem,
        config: StoreConfig,
        *,
        fill_gaps: bool = True,
        deleted: DeletedTopics | None = None,
        has_process: bool = False,
    ) -> None:
        """Open no queue yet; `fill_gaps` as in `consume_queue_writer`.

        deleted: the topics that were deleted, by default those of this store.
        has_process: whether the process has little else to open, so that it may keep more files.
        """
        self._fs = fs
        self._config = config
        self._fill_gaps = fill_gaps
        descriptors_max = process_descriptors_max()
        self._open_files = OpenFiles(
            OPEN_FILES_MAX,
            descriptors_max=OWN_SHARE * descriptors_max if has_process else descriptors_max,
        )
        self._queues: dict[QueueKey, ConsumeQueueWriter] = {}
        self._unopened: set[QueueKey] = set()
        self._opens_later = self._are_durable = self._rest_has_one_file = False
        self._durable: int | None = None
        self._cut_at = self._end = 0
        self._deleted = deleted or DeletedTopics(fs, config.paths)
        self._placement = EntryPlacement(
            config, self.open_queue, lambda: self._deleted.ends, self._expect
        )
        self._expected_count = 0
        self._together_max = open_files_allowed(FILES_TOGETHER_MAX, descriptors_max)
        self._illegal_names_count = 0
        self._files_made_count = 0
        self._unsynced: list[str] = []  # directories
        self._ahead = FilesAhead(
            fs,
            config.paths.new_file(join(config.paths.root, "consumequeue.ahead"), FILE_OWNER),
            config.consume_queue_bytes,
            count=FILES_AHEAD_COUNT,
        )

    def dispatch(self, batch: DispatchBatch) -> None:
        """Put an entry of each visible message into each of its queues, and write them."""
        for queue in self._placement.place(batch):
            queue.write_pending()

    def prepare_flush(self) -> FlushPart:
        """Return what was written since the last flush; nothing is kept in memory."""
        directories, self._unsynced = list(dict.fromkeys(self._unsynced)), []
        paths = [path for queue in self._queues.values() for path in queue.dirty_paths()]
        return FlushPart(paths, directories)

    def make_ahead(self) -> None:
        """Make files for new queues."""
        self._ahead.make()

    def recover(self, max_physical_offset: int) -> int:
        """Open all queues and return the end of the last record that has an entry.

        The next flush also syncs what an earlier writer made and did not sync.
        """
        self.close()
        clean_unfinished(self._fs, self._config.paths, FILE_OWNER)
        self._unsynced.append(self._config.paths.root)
        self._unopened = set(list_queues(self._fs, self._config.paths))
        self._rest_has_one_file, self._cut_at = False, max_physical_offset
        are_durable, self._are_durable = self._are_durable, False
        durable = read_dispatched(self._fs, self._config.paths.dispatched).physical_offset
        self._durable = None if are_durable else durable
        self._end = max_physical_offset if are_durable else durable
        if not self._opens_later or self._end < max_physical_offset - DISPATCHED_AGAIN_BYTES_MAX:
            self._open(list(self._unopened))
            self._end = 0
        return self.truncate(max_physical_offset)

    def open_later(self, *, are_durable: bool) -> None:
        """Let `recover` open no queue: each is opened with its first record.

        are_durable: until the next `recover` the queues are durable, checked and cut at the log's
            end. Later ones return the position in `wakelog.dispatched` instead: what a writer left
            unsynced belongs to records above it, which come again.
        """
        self._opens_later, self._are_durable = True, are_durable

    def truncate(self, physical_offset: int) -> int:
        """Cut each queue at the first entry of a record at or above `physical_offset`.

        One that is not open is cut when it is opened.
        """
        self._cut_at = min(self._cut_at, physical_offset)
        end = min(self._end, physical_offset)
        for queue in self._queues.values():
            queue.truncate_physical(physical_offset)
            end = max(end, queue.max_physical_offset)
        return end

    def remove_before(self, physical_offset: int) -> int:
        """Delete each queue's files below the log's begin, never the last one of a queue."""
        self._deleted.forget_before(physical_offset)
        if not self._rest_has_one_file:
            self._open([key for key in self._unopened if self._has_more_files(key)])
            self._rest_has_one_file = True
        return sum(queue.remove_files_before(physical_offset) for queue in self._queues.values())

    def remove_queues(self, removal: QueueRemoval) -> int:
        """Remove queues with their extensions for good, and return how many there were.

        Durable on return is that they will not come back; files of an interrupted removal go at
        the next start.
        """
        topics, expired = set(removal.topics), set(removal.queues)
        self._open([key for key in self._unopened if key[0] in topics or key in expired])
        keys = [key for key in self._queues if key[0] in topics or key in expired]
        if removal.topics:
            self._deleted.note(removal.topics, removal.physical_offset)
        for key in keys:
            if self._queues[key].max_physical_offset > removal.physical_offset:
                continue  # made again, by a Broker that has given up waiting
            self._remove(key)
        return len(keys)

    def stale_queues(self, ends: Mapping[str, int]) -> StaleQueues:
        """Return what `restart_queues` would remove for a master's deleted ends."""
        keys, again_from = [], None
        self._open([key for key in self._unopened if key[0] in ends])
        for key, queue in self._queues.items():
            end = max(ends.get(key[0], 0), self._deleted.ends.get(key[0], 0))
            if key[0] in ends and queue.has_entry_below(end):
                keys.append(key)
                if queue.max_physical_offset > end:
                    again_from = end if again_from is None else min(end, again_from)
        return StaleQueues(keys, again_from)

    def restart_queues(self, ends: Mapping[str, int], stale: StaleQueues) -> None:
        """Note a master's deleted ends, and remove the queues that have older entries.

        The caller dispatches the log again from `stale.again_from`, and has noted that durably.
        """
        self._deleted.add_ends(ends)
        for key in stale.keys:
            self._remove(key)

    def _remove(self, key: QueueKey) -> None:
        paths = self._config.paths
        self._queues.pop(key).delete()
        remove_if_empty(self._fs, dirname(paths.consume_queue(*key)))
        remove_units(self._fs, paths.consume_queue_extension(*key))

    def queue(self, topic: str, queue_id: int) -> ConsumeQueueWriter | None:
        """Return a queue, opened if needed, None if there is none; for tests."""
        self._open([key for key in self._unopened if key == (topic, queue_id)])
        return self._queues.get((topic, queue_id))

    def statistics(self) -> dict[str, int]:
        """Return counters; those of queues are sums over all of them."""
        queues = self._queues.values()
        return {
            "queues_count": len(queues) + len(self._unopened),
            "files_made_count": self._files_made_count,
            "illegal_names_count": self._illegal_names_count,
            "repeated_count": sum(queue.repeated_count for queue in queues),
            "gaps_count": sum(queue.gaps_count for queue in queues),
            "refused_count": sum(queue.refused_count for queue in queues),
            "mended_count": sum(queue.mended_count for queue in queues),
        }

    def close(self) -> None:
        """Close every file; remove those made ahead."""
        self._ahead.remove()
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()
        self._unopened.clear()

    def open_queue(self, key: QueueKey) -> ConsumeQueueWriter | None:
        """Return a queue, opened or made if needed; None, counted, if its name cannot be a path."""
        queue = self._queues.get(key)
        if queue is not None:
            return queue
        try:
            directory = self._config.paths.consume_queue(*key)
        except IllegalName:
            self._illegal_names_count += 1
            return None
        queue = ConsumeQueueWriter(
            self._fs,
            directory,
            file_bytes=self._config.consume_queue_bytes,
            open_files=self._open_files,
            make_file=self._make_file,
            fill_gaps=self._fill_gaps,
            extension=self._extension(key),
        )
        is_old = key in self._unopened
        queue.recover(is_durable=self._opens_later)
        if is_old:
            if self._durable is not None:
                queue.mark_unsynced(self._durable)
                for path in queue.directories:
                    topic = dirname(path)
                    self._unsynced += [dirname(topic), topic, path]
            queue.truncate_physical(self._cut_at)
            self._unopened.remove(key)
        self._queues[key] = queue
        return queue

    def _open(self, keys: Iterable[QueueKey]) -> None:
        for key in keys:
            self.open_queue(key)

    def _has_more_files(self, key: QueueKey) -> bool:
        """Tell whether a queue may have files that a trim removes: the last one always stays."""
        if self._config.enable_consume_queue_extension:
            return True
        return len(names_in(self._fs, self._config.paths.consume_queue(*key))) > 1

    def _expect(self, keys: Collection[QueueKey]) -> None:
        """Note how many files of new queues a batch needs at most."""
        queues, unopened = self._queues, self._unopened
        self._expected_count = sum(key not in queues and key not in unopened for key in keys)

    def _extension(self, key: QueueKey) -> ConsumeQueueExtWriter | None:
        if not self._config.enable_consume_queue_extension:
            return None
        return ConsumeQueueExtWriter(
            self._fs,
            self._config.paths.consume_queue_extension(*key),
            file_bytes=self._config.consume_queue_extension_file_bytes,
            open_files=self._open_files,
            make_file=self._make_extension_file,
        )

    def _take_file(self) -> str | None:
        """Return a file that was made ahead; make several now if a batch needs as many."""
        self._expected_count -= 1
        taken = self._ahead.take_file()
        count = min(self._expected_count + 1, self._together_max)
        if taken is None and count > 1:
            with suppress(StoreError):  # it is made alone then, and the error is raised if it stays
                self._ahead.make_more(count)
            taken = self._ahead.take_file()
        return taken

    def _make_extension_file(self, path: str, size_bytes: int) -> None:
        self._make(path, size_bytes, None)

    def _make_file(self, path: str, size_bytes: int) -> None:
        self._make(path, size_bytes, self._take_file())

    def _make(self, path: str, size_bytes: int, made_ahead: str | None) -> None:
        is_first = not self._fs.exists(dirname(path))
        if not is_first:
            sync_directories(self._fs, [dirname(path)])
        make_segment(
            self._fs,
            path,
            size_bytes,
            temporary_path=made_ahead or self._config.paths.new_file(path, FILE_OWNER),
            is_built=made_ahead is not None,
            unsynced=self._unsynced if is_first else None,
        )
        self._files_made_count += 1
