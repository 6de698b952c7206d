"""Checks the CRC of each record's body while the log is dispatched: a dispatcher without files.

4.9.3 checks bodies in recovery alone; a rebuild that passes this has looked at every byte that a
checksum covers. Columns check while they hold the bytes, so that nothing is read twice.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wakelog.dispatchers.dispatcher import DispatchBatch, FlushPart
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.record_check import CheckKind, check_record

# Whoever has more has lost a disk, and needs no list of them.
DAMAGED_BODIES_KEPT_MAX: Final = 1_000


class DamagedBody(NamedTuple):
    """A record whose body is not what its producer sent."""

    physical_offset: int
    topic: str
    queue_id: int
    queue_offset: int
    size_bytes: int


class BodyCheck:
    """See the module. Needs the log for the steps that are not bulk ones."""

    name = "body_check"

    def __init__(self, log: CommitLogReader) -> None:
        """Begin with nothing damaged."""
        self._log = log
        self.damaged: list[DamagedBody] = []
        self.damaged_count = 0

    def dispatch(self, batch: DispatchBatch) -> None:
        """Check each record's body."""
        if batch.columns is not None:
            for request in batch.columns.damaged_bodies():
                self._note(request)
            return
        for request in batch.requests:
            data = self._log.read(request.physical_offset, request.size_bytes)
            if data is not None:
                check = check_record(data, 0, request.physical_offset, len(data), check_body=True)
                if check.kind is not CheckKind.SOUND:
                    self._note(request)

    def flush(self) -> None:
        """Do nothing: there are no files."""

    def prepare_flush(self) -> FlushPart:
        """Name no file."""
        return FlushPart([], [])

    def make_ahead(self) -> None:
        """Make nothing."""

    def recover(self, max_physical_offset: int) -> int:
        """Ask for the whole log."""
        return 0

    def truncate(self, physical_offset: int) -> int:
        """Ask for the whole log."""
        return 0

    def statistics(self) -> dict[str, int]:
        """Return the one counter."""
        return {"damaged_count": self.damaged_count}

    def remove_before(self, physical_offset: int) -> int:
        """Remove nothing."""
        return 0

    def delete_topic(self, topic: str) -> int:
        """Remove nothing."""
        return 0

    def close(self) -> None:
        """Close nothing."""

    def _note(self, request: DispatchRequest) -> None:
        self.damaged_count += 1
        if len(self.damaged) < DAMAGED_BODIES_KEPT_MAX:
            self.damaged.append(
                DamagedBody(
                    request.physical_offset,
                    request.topic,
                    request.queue_id,
                    request.queue_offset,
                    request.size_bytes,
                )
            )
