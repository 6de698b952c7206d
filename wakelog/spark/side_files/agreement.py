"""Checks that side files still agree with the log: their last messages are records of it.

While the dispatcher is off, a broker may truncate the log and continue it, or the log may be
replaced. A new record may even end where the files end. But truncation removes everything from a
place on. So if the last message of a range is in the log, all messages before it are too.

Invariants: nothing is changed; an unreadable file, or one without a message, does not agree. A file
of which the log has no message any more counts as agreed.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.java import LONG_MAX
from wakelog.protocol.record import BLANK_BYTES, MessageRecord, decode_record
from wakelog.storage.file_system import FileSystem, reading
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.record_check import CheckKind, check_record

_TIME_MS_MAX: Final = LONG_MAX // 1000


def _micros(time_ms: int) -> int:
    """Return microseconds, clamped as in the files."""
    return max(-_TIME_MS_MAX, min(time_ms, _TIME_MS_MAX)) * 1000


_COLUMNS: Final[Mapping[str, Callable[[MessageRecord], Any]]] = {
    "commitLogOffset": attrgetter("physical_offset"),
    "storeSize": attrgetter("size_bytes"),
    "topic": attrgetter("topic"),
    "queueId": attrgetter("queue_id"),
    "queueOffset": attrgetter("queue_offset"),
    "bodyCRC": attrgetter("body_crc"),
    "bornTimestamp": lambda record: _micros(record.born_timestamp_ms),
    "storeTimestamp": lambda record: _micros(record.store_timestamp_ms),
}
"""These identify a message among all that may ever lie at its place."""


def agreed_end(
    fs: FileSystem, paths: Sequence[str], span_end: int, log: CommitLogReader
) -> int | None:
    """Return the offset up to which the files of a range surely agree with the log, else None.

    It is the range's end if no record lies between the last message and that end. Other records
    there, of the system's topics, may have replaced messages. Raises: OSError, StoreFailed.
    """
    try:
        last = max(_last_message(fs, path) for path in paths)
    except (pa.ArrowException, LookupError, FileNotFoundError):
        return None
    except OSError as error:
        if error.errno is not None:
            raise
        return None  # pyarrow raises it for a damaged footer
    physical_offset, size_bytes, *_ = last
    if physical_offset < log.min_offset:
        return span_end
    data = log.read(physical_offset, size_bytes)
    try:
        record = None if data is None else decode_record(data)
    except RemoteProtocolError:
        return None
    if record is None or last != tuple(read(record) for read in _COLUMNS.values()):
        return None
    end = physical_offset + size_bytes
    return span_end if _is_blank(log, end, span_end) else end


def _is_blank(log: CommitLogReader, begin: int, end: int) -> bool:
    """Return whether only the blank end of a segment lies in [begin, end)."""
    if begin == end:
        return True
    segment_end = log.segment_end(begin)
    head = log.read_span(begin, BLANK_BYTES)
    check = check_record(head, 0, begin, len(head), segment_end=segment_end)
    return end <= segment_end and check.kind is CheckKind.END_OF_FILE


def _last_message(fs: FileSystem, path: str) -> tuple[Any, ...]:
    """Return the last row of a file. Raises: pa.ArrowException, IndexError, OSError."""
    with reading(fs, path) as fd:
        file = pq.ParquetFile(pa.PythonFile(_FileView(fs, fd), mode="r"))
        group = file.read_row_group(file.num_row_groups - 1, columns=list(_COLUMNS))
    row = group.slice(max(group.num_rows - 1, 0))
    return tuple(_plain(row.column(name)).to_pylist()[0] for name in _COLUMNS)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


class _FileView(io.RawIOBase):
    """An open file for pyarrow, which reads only the footer and some columns of it."""

    def __init__(self, fs: FileSystem, fd: int) -> None:
        self._fs = fs
        self._fd = fd
        self._size_bytes = fs.size(fd)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begins = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}
        self._position = begins[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(self._size_bytes - self._position, 0)
        data = self._fs.pread(self._fd, left if size < 0 else min(size, left), self._position)
        self._position += len(data)
        return data
