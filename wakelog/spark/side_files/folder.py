"""The Parquet files of a store: written whole or not at all, named by their range of the log.

    wakelog.parquet/<topic>/<begin>-<end>.parquet   the topic's messages of [begin, end) of the log
    wakelog.parquet/<topic>/.unfinished             a file that is being written

Begin and end are physical offsets of 20 digits. The files of one range are written together, one
for each topic. All are synced under the unfinished name, which readers ignore, and then renamed.

Invariants:
- A file with a final name is complete and durable.
- Ranges do not overlap: the files of a failed attempt are removed before the next one.
- No name leads out of the folder: each topic passes the check for paths.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from posixpath import dirname, join
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from wakelog.storage.errors import IllegalName
from wakelog.storage.file_system import FileSystem, write_synced
from wakelog.storage.paths import check_topic_name, offset_name

CODEC: Final = "snappy"
"""Spark's own default; text shrinks to a half at little cost."""

UNFINISHED: Final = ".unfinished"
"""Spark, pyarrow and others ignore names that begin with a dot."""

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{20})\.parquet", re.ASCII)


class Span(NamedTuple):
    """Bytes [begin, end) of the log."""

    begin: int
    end: int

    @property
    def file_name(self) -> str:
        """The name of a file with its messages."""
        return f"{offset_name(self.begin)}-{offset_name(self.end)}.parquet"


def parse_file_name(name: str) -> Span | None:
    """Return the range in the name of a file, None for any other name."""
    found = _NAME.fullmatch(name)
    return None if found is None else Span(int(found[1]), int(found[2]))


class SideFolder:
    """See the module. One owner, one thread."""

    def __init__(self, fs: FileSystem, root: str) -> None:
        self._fs = fs
        self._root = root
        self._spans: dict[Span, list[str]] = {}
        self._attempt: list[str] = []

    @property
    def files_count(self) -> int:
        """The number of files."""
        return sum(map(len, self._spans.values()))

    def open(self) -> None:
        """List the files, and remove unfinished ones. Raises: OSError."""
        self._spans, self._attempt = {}, []
        for topic in self._names(self._root):
            try:
                check_topic_name(topic)
            except IllegalName:
                continue
            for name in self._names(join(self._root, topic)):
                span = parse_file_name(name)
                if span is not None:
                    self._spans.setdefault(span, []).append(topic)
                elif name == UNFINISHED:
                    self._fs.unlink(join(self._root, topic, name))

    def whole_below(self, end: int) -> int:
        """Return the largest offset up to `end` that lies within no range."""
        return min([end, *(span.begin for span in self._spans if span.end > end)])

    def backwards(self, end: int) -> Iterator[tuple[Span, list[str]]]:
        """Yield the ranges up to `end` with their files, the last range first."""
        for span in sorted((span for span in self._spans if span.end <= end), reverse=True):
            yield span, self._paths(span)

    def cut(self, end: int) -> int:
        """Remove files that reach beyond `end`, durably; return their count. Raises: OSError."""
        return self._remove([span for span in self._spans if span.end > end])

    def remove_before(self, begin: int) -> int:
        """Remove files that end at or before the log's begin; return their count."""
        return self._remove([span for span in self._spans if span.end <= begin])

    def add(self, span: Span, tables: Mapping[str, pa.Table]) -> int:
        """Write the tables of a range, by topic; return the bytes written. Raises: OSError.

        All files are durable on return. A failure may leave some of them; the next call removes
        these.
        """
        self._unlink(self._attempt)  # of a call that failed
        self._attempt = []
        total_bytes = 0
        for topic, table in tables.items():
            directory = self._directory(topic)
            self._fs.make_directories(directory)
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression=CODEC)
            data = memoryview(sink.getvalue())
            self._attempt.append(join(directory, UNFINISHED))
            write_synced(self._fs, self._attempt[-1], data)
            total_bytes += len(data)
        for topic in tables:
            directory = self._directory(topic)
            self._attempt.append(join(directory, span.file_name))
            self._fs.rename(join(directory, UNFINISHED), self._attempt[-1])
            self._fs.sync_directory(directory)
        if tables:
            self._spans[span] = list(tables)
        self._attempt = []
        return total_bytes

    def _remove(self, spans: list[Span]) -> int:
        paths = [path for span in spans for path in self._paths(span)]
        self._unlink(paths)
        for span in spans:
            del self._spans[span]
        return len(paths)

    def _paths(self, span: Span) -> list[str]:
        return [join(self._directory(topic), span.file_name) for topic in self._spans[span]]

    def _unlink(self, paths: list[str]) -> None:
        """Remove files durably: a file that came back would repeat messages of another."""
        for path in paths:
            with suppress(FileNotFoundError):
                self._fs.unlink(path)
        for directory in {dirname(path) for path in paths}:
            with suppress(FileNotFoundError):
                self._fs.sync_directory(directory)
            with suppress(OSError):  # it has other files, or is gone
                self._fs.remove_directory(directory)

    def _directory(self, topic: str) -> str:
        return join(self._root, check_topic_name(topic))

    def _names(self, path: str) -> Iterator[str]:
        with suppress(FileNotFoundError, NotADirectoryError):
            yield from self._fs.list_directory(path)
