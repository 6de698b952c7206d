"""The Parquet dispatcher: when files are due, and what a restart or a truncation does to them.

    the log   ... | in files | readable, waits | not readable yet
                  ^ begin                      ^ end

The end of a batch is how far the log may be read. It reads the log itself when a file is due: when
`parquetFileBytes` of the log wait, or many rows, or some rows have waited `parquetFileAgeMs`. So it
keeps no messages in memory meanwhile. `flush` returns the end of the files as durable. The cursor
of the plug-in keeps that place, and retention keeps the log after it.

    at a start        files after the kept place, or after the log's end, are made again: they may
                      be incomplete, or of records that a crash removed. The same holds for files
                      that disagree with the log, since another broker may have continued it
    at a truncation   likewise; whole files are removed, and the rest of their range is read again
    after retention   the next write removes the files of which the log has no message any more

Invariants: a message of the log below `begin` is in one file, any other message is in none.
"""

import time
from collections import Counter
from collections.abc import Callable

from wakelog.dispatchers.cursor_file import CursorFile
from wakelog.dispatchers.dispatcher import DispatchBatch
from wakelog.spark.side_files.agreement import agreed_end
from wakelog.spark.side_files.folder import SideFolder, Span
from wakelog.spark.side_files.gather import ROWS_MAX, Gatherer
from wakelog.spark.stores import own_name
from wakelog.storage.config import StoreConfig
from wakelog.storage.file_system import FileSystem
from wakelog.storage.log.commit_log_reader import CommitLogReader


def make_dispatcher(config: StoreConfig) -> "ParquetDispatcher":
    """Return the dispatcher of a store, over the real file system."""
    return ParquetDispatcher(FileSystem(), config)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class ParquetDispatcher:
    """See the module. A Dispatcher."""

    name = "parquet"

    def __init__(
        self, fs: FileSystem, config: StoreConfig, *, clock_ms: Callable[[], int] = _now_ms
    ) -> None:
        self._fs = fs
        self._config = config
        self._clock_ms = clock_ms
        self._folder = SideFolder(fs, config.paths.side_files_directory)
        self._kept = CursorFile(fs, config.paths.root, self.name)
        self._log = CommitLogReader(fs, config)
        self._gatherer: Gatherer | None = None
        self._begin = self._end = 0
        self._waiting_rows = 0
        self._waits_since_ms: int | None = None
        self._is_first = True
        self._counts = Counter(
            rows=0, bytes=0, removed_files=0, damaged_stretches=0, unnamed_rows=0, missed_bytes=0
        )

    def dispatch(self, batch: DispatchBatch) -> None:
        """Count the log up to the batch's end as readable; write the files that are due.

        Raises: OSError, StoreFailed, LogShort.
        """
        if self._is_first and batch.begin < self._begin:
            # The cursor went back: another broker truncated and continued the log, and no record
            # begins at the end of the files.
            self.truncate(batch.begin)
        self._is_first = False
        if batch.end > self._end:
            self._end = batch.end
            self._waiting_rows += len(batch)
            if self._waits_since_ms is None:
                self._waits_since_ms = self._clock_ms()
        while (
            self._end - self._begin >= self._config.parquet_file_bytes
            or self._waiting_rows >= ROWS_MAX
        ):
            self._write()

    def flush(self) -> int:
        """Write rows that have waited long enough; return the end of the files.

        Raises: OSError, StoreFailed, LogShort.
        """
        since_ms = self._waits_since_ms
        if since_ms is not None and self._clock_ms() - since_ms >= self._config.parquet_file_age_ms:
            while self._begin < self._end:
                self._write()
        return self._begin

    def recover(self, max_physical_offset: int) -> int:
        """Keep the files that are complete and of this log; return their end.

        Raises: OSError, StoreFailed, StoreUnreadable.
        """
        self._folder.open()
        self._gatherer = Gatherer(
            self._log,
            own_name(self._fs, self._config.paths.root),
            bytes_max=2 * self._config.parquet_file_bytes,
        )
        self._is_first = True
        kept = min(self._kept.read() or 0, max_physical_offset)
        return self.truncate(self._end_of_agreement(self._folder.whole_below(kept)))

    def _end_of_agreement(self, end: int) -> int:
        """Return the offset up to which the files below `end` agree with the log.

        After the last files that agree the log may have been truncated, even if it had no messages
        for files there.
        """
        begin = min(self._log.min_offset, end)
        for span, paths in self._folder.backwards(end):
            if span.end <= begin:
                break
            agreed = agreed_end(self._fs, paths, span.end, self._log)
            if agreed is not None:
                return agreed
        return begin

    def truncate(self, physical_offset: int) -> int:
        """Remove files with messages after an offset; return where reading begins again.

        Raises: OSError.
        """
        self._begin = self._end = self._folder.whole_below(physical_offset)
        if (self._kept.read() or 0) > self._begin:
            # Before the files are removed: after a kill in between they must not count as written.
            self._kept.write(self._begin)
        self._counts["removed_files"] += self._folder.cut(self._begin)
        self._waiting_rows = 0
        self._waits_since_ms = None
        return self._begin

    def statistics(self) -> dict[str, int]:
        """Return counters, the number of files, and the bytes that wait."""
        return {
            **self._counts,
            "files": self._folder.files_count,
            "position": self._begin,
            "waiting_bytes": self._end - self._begin,
        }

    def _write(self) -> None:
        assert self._gatherer is not None, "not recovered"
        found = self._gatherer.gather(self._begin, self._end)
        self._counts["bytes"] += self._folder.add(Span(self._begin, found.end), found.tables)
        self._counts.update(found.counts)
        self._begin = found.end
        self._waiting_rows = 0
        self._waits_since_ms = self._clock_ms() if self._begin < self._end else None
        self._counts["removed_files"] += self._folder.remove_before(self._log.min_offset)
