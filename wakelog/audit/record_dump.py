"""Finds records of the log by offset, topic, queue, key and time, for somebody to read.

The log is read from front to back: queues and index may be what is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from wakelog.dispatchers.log_cursor import BadStretch, LogCursor
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.message_record import MessageRecord, decode_record
from wakelog.protocol.properties import split_keys
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.dispatch_request import DispatchRequest


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which records; None selects all. Times are store times, [since_ms, until_ms)."""

    physical_offset: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    key: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def has(self, request: DispatchRequest) -> bool:
        """Tell whether a record is selected."""
        wanted = (
            (self.topic, request.topic),
            (self.queue_id, request.queue_id),
            (self.queue_offset, request.queue_offset),
        )
        if any(want is not None and want != there for want, there in wanted):
            return False
        if self.since_ms is not None and request.store_timestamp_ms < self.since_ms:
            return False
        if self.until_ms is not None and request.store_timestamp_ms >= self.until_ms:
            return False
        if self.key is None:
            return True
        return self.key == request.uniq_key or self.key in split_keys(request.keys or "")


def selected_records(
    log: CommitLogReader, selection: Selection, tell: Callable[[BadStretch], None]
) -> Iterator[MessageRecord]:
    """Yield the selected records in log order, from `selection.physical_offset` on.

    What is no sound record is passed over, as every reader does; `tell` hears of it, but not of
    what lies behind the last one, which mostly was never written. Raises: StoreFailed.
    """
    cursor, end = LogCursor(log, ()), log.max_file_end
    cursor.move_to(max(selection.physical_offset or 0, log.min_offset), end)
    begin = selection.physical_offset or 0
    last: BadStretch | None = None
    untold: list[BadStretch] = []
    while (batch := cursor.read(end, 0)) is not None:
        stretch = cursor.last_bad_stretch
        if stretch is not None and stretch is not last:
            untold.append(stretch)
            last = stretch
        if batch.requests:
            for stretch in untold:
                tell(stretch)
            untold.clear()
        for request in batch.requests:
            if request.physical_offset >= begin and selection.has(request):
                data = log.read(request.physical_offset, request.size_bytes)
                if data is not None:
                    try:
                        yield decode_record(data)
                    except ProtocolError:
                        continue  # cut or written anew since it was found
        cursor.passed(batch)
