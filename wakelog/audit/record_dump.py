"""Finds records of the log by offset, topic, queue, key and time, for a person to read.

The log is read from its begin to its end, because queues and index may be damaged.
"""

from collections.abc import Callable, Iterator

import msgspec

from wakelog.dispatchers.log_cursor import BadStretch, LogCursor
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.properties import split_keys
from wakelog.protocol.record import MessageRecord, decode_record
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.dispatch_request import DispatchRequest

ReportGap = Callable[[BadStretch], None]


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which records; None selects all. Times are store times, [since_ms, until_ms)."""

    physical_offset: int | None = None
    topic: str | None = None
    topic_prefix: str = ""
    queue_id: int | None = None
    queue_offset: int | None = None
    key: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def has(self, request: DispatchRequest) -> bool:
        """Return whether a record is selected."""
        wanted = (
            (self.topic, request.topic),
            (self.queue_id, request.queue_id),
            (self.queue_offset, request.queue_offset),
        )
        if any(want is not None and want != there for want, there in wanted):
            return False
        if not request.topic.startswith(self.topic_prefix):
            return False
        if self.since_ms is not None and request.store_timestamp_ms < self.since_ms:
            return False
        if self.until_ms is not None and request.store_timestamp_ms >= self.until_ms:
            return False
        if self.key is None:
            return True
        return self.key == request.uniq_key or self.key in split_keys(request.keys or "")


def selected_records(
    log: CommitLogReader, selection: Selection, report_gap: ReportGap
) -> Iterator[MessageRecord]:
    """Yield the selected records whole, as `selected_requests` finds them. Raises: StoreFailed."""
    for request in selected_requests(log, selection, report_gap):
        data = log.read(request.physical_offset, request.size_bytes)
        if data is not None:
            try:
                yield decode_record(data)
            except ProtocolError:
                continue  # cut or overwritten since it was found


def selected_requests(
    log: CommitLogReader, selection: Selection, report_gap: ReportGap
) -> Iterator[DispatchRequest]:
    """Yield the selected records in log order, from `selection.physical_offset` on.

    Bytes that hold no sound record are passed over and reported. Bytes after the last sound record
    are not reported: most of them were never written. Raises: StoreFailed.
    """
    cursor, end = LogCursor(log, ()), log.max_file_end
    cursor.move_to(max(selection.physical_offset or 0, log.min_offset), end)
    begin = selection.physical_offset or 0
    last: BadStretch | None = None
    unreported: list[BadStretch] = []
    while (batch := cursor.read(end, 0)) is not None:
        stretch = cursor.last_bad_stretch
        if stretch is not None and stretch is not last:
            unreported.append(stretch)
            last = stretch
        if batch.requests:
            for stretch in unreported:
                report_gap(stretch)
            unreported.clear()
        for request in batch.requests:
            if request.physical_offset >= begin and selection.has(request):
                yield request
        cursor.passed(batch)
