"""Checks the CRC of each record's body while the log is dispatched; a dispatcher without files.

4.9.3 checks bodies only in recovery. With this a rebuild has checked every byte that a CRC covers.
Columns check a body while they hold its bytes, so that no byte is read twice.
"""

from typing import Final

from wakelog.dispatchers.dispatcher import DispatchBatch, FilelessDispatcher
from wakelog.storage.log.commit_log_reader import CommitLogReader
from wakelog.storage.log.dispatch_request import DispatchRequest
from wakelog.storage.log.record_check import CheckKind, check_record

# A store with more has lost a disk, and a list does not help.
DAMAGED_BODIES_KEPT_MAX: Final = 1_000


class BodyCheck(FilelessDispatcher):
    """See the module. Reads the log again for records that are not in columns."""

    name = "body_check"

    def __init__(self, log: CommitLogReader) -> None:
        self._log = log
        self.damaged: list[DispatchRequest] = []
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

    def recover(self, max_physical_offset: int) -> int:
        """Return 0: the whole log is to be dispatched."""
        return 0

    def truncate(self, physical_offset: int) -> int:
        """Return 0: the whole log is to be dispatched."""
        return 0

    def statistics(self) -> dict[str, int]:
        """Return the one counter."""
        return {"damaged_count": self.damaged_count}

    def _note(self, request: DispatchRequest) -> None:
        self.damaged_count += 1
        if len(self.damaged) < DAMAGED_BODIES_KEPT_MAX:
            self.damaged.append(request)
