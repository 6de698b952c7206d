"""Sets of readers over one store's files, lent to one caller at a time.

If one thread closes a descriptor while another reads through it, the number may already name
another file. So threads never share a set: a caller borrows one and gives it back. There are as
many sets as there were callers at once. The set given back last is lent next, so that a single
thread keeps the same one, with what it remembers of queues.

Invariant: a set has at most one borrower.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.index.index_service import IndexReader
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.mapped_file import OpenFiles
from wakelog.storage.queue.consume_queue import ConsumeQueue
from wakelog.storage.queue.consume_queue_ext import ConsumeQueueExt
from wakelog.storage.read.query import Query
from wakelog.storage.read.readable import ReadableQueue, ReadableQueues
from wakelog.storage.read.reader import Reader

# Descriptors of segments and queue files in one set. A pool of 8 threads then stays below the usual
# limit of 1,024 for a process, with room for sockets.
SET_FILE_COUNT_MAX: Final = 64


class ReaderSet:
    """All that one caller needs to read a store."""

    def __init__(
        self,
        fs: FileSystem,
        config: StoreConfig,
        generation: int,
        *,
        memory_bytes: int,
        damaged: Sequence[range],
    ) -> None:
        """List the log's directories; open nothing else yet."""
        paths = config.paths
        open_files = OpenFiles(SET_FILE_COUNT_MAX)

        def open_queue(topic: str, queue_id: int) -> ReadableQueue:
            queue = ConsumeQueue(
                fs,
                paths.consume_queue(topic, queue_id),
                file_bytes=config.consume_queue_bytes,
                open_files=open_files,
            )
            if not config.enable_consume_queue_extension:
                return ReadableQueue(queue)
            extension = ConsumeQueueExt(
                fs,
                paths.consume_queue_extension(topic, queue_id),
                file_bytes=config.consume_queue_extension_file_bytes,
                open_files=open_files,
            )
            return ReadableQueue(queue, extension)

        self.generation = generation
        self.log = CommitLogReader(fs, config, open_files=open_files)
        self.queues = ReadableQueues(open_queue)
        self.reader = Reader(
            config, self.log, self.queues, memory_bytes=memory_bytes, damaged=damaged
        )
        self.query = Query(self.log, IndexReader(fs, config))

    def close(self) -> None:
        """Close every descriptor."""
        self.query.close()
        self.queues.close()
        self.log.close()


class StoreReaders:
    """The sets of one store. Any thread may call any method."""

    def __init__(
        self,
        fs: FileSystem,
        config: StoreConfig,
        *,
        physical_memory_bytes: int,
        damaged: Sequence[range] = (),
    ) -> None:
        """Make no set yet. `damaged`: stretches of the log without sound records."""
        self._config = config
        self._physical_memory_bytes = physical_memory_bytes
        self._make_set = partial(ReaderSet, fs, config, damaged=damaged)
        self._generation = 0
        # A deque's pop and append are atomic: the sets need no lock.
        self._free: deque[ReaderSet] = deque()

    @property
    def memory_bytes(self) -> int:
        """How far below the log's end a message counts as being in memory."""
        percent = self._config.access_message_in_memory_percent_max
        return self._physical_memory_bytes * percent // 100

    def use_settings(self) -> None:
        """Read by the configuration as it is now: later sets do, and the others are closed."""
        self.forget()

    def borrow(self) -> ReaderSet:
        """Return a set for this caller alone, which gives it back."""
        while True:
            try:
                readers = self._free.pop()
            except IndexError:
                return self._make_set(self._generation, memory_bytes=self.memory_bytes)
            if readers.generation == self._generation:
                return readers
            readers.close()

    def give_back(self, readers: ReaderSet) -> None:
        """Make a set available again, or close it if it was to be forgotten meanwhile."""
        if readers.generation == self._generation:
            self._free.append(readers)
        else:
            readers.close()

    @contextmanager
    def lend(self) -> Iterator[ReaderSet]:
        """Lend a set for a block of code."""
        readers = self.borrow()
        try:
            yield readers
        finally:
            self.give_back(readers)

    def read_nowait(self, physical_offset: int, size_bytes: int) -> bytes | None:
        """Return bytes of one segment of the log, None if that needs the disk."""
        with self.lend() as readers:
            view = readers.log.view(physical_offset, size_bytes, blocking=False)
            return None if view is None else bytes(view)

    def forget(self) -> None:
        """Close each set after its present use: queues that it remembers are being removed."""
        self._generation += 1

    def close(self) -> None:
        """Close every set, one that is lent when it is given back."""
        self.forget()
        while self._free:
            self._free.pop().close()
