"""Checks the CRC of each record's body while the log is dispatched: a dispatcher without files.

4.9.3 checks bodies in recovery alone; a rebuild that passes this has looked at every byte that a
checksum covers. The columns of a bulk step still hold the bytes, so that nothing is read twice.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from wakelog.dispatchers.dispatcher import DispatchBatch, FlushPart
from wakelog.protocol.message_record import (
    BODY_CRC_OFFSET,
    BODY_SIZE_OFFSET_V4,
    V6_EXTRA_BYTES,
    body_crc,
)
from wakelog.protocol.sys_flag import MESSAGE_BORN_HOST_V6, MESSAGE_STORE_HOST_V6
from wakelog.storage.bulk.columns import Columns
from wakelog.storage.bulk.layout import PHYSICAL_OFFSET, SYS_FLAG, TOPIC_BEGIN
from wakelog.storage.commit_log_reader import CommitLogReader
from wakelog.storage.dispatch_request import DispatchRequest
from wakelog.storage.record_check import CheckKind, check_record

# Whoever has more has lost a disk, and needs no list of them.
DAMAGED_BODIES_KEPT_MAX: Final = 1_000
_BODY_OFFSET_V4: Final = BODY_SIZE_OFFSET_V4 + 4


class DamagedBody(NamedTuple):
    """A record whose body is not what its producer sent."""

    physical_offset: int
    topic: str
    queue_id: int
    queue_offset: int


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
            self._check_columns(batch.columns, batch.begin)
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

    def _check_columns(self, columns: Columns, begin: int) -> None:
        numbers = columns.numbers[: columns.count]
        heads = numbers[:, PHYSICAL_OFFSET] - begin
        flags = numbers[:, SYS_FLAG]
        hosts = ((flags & MESSAGE_BORN_HOST_V6) != 0) * V6_EXTRA_BYTES
        hosts = hosts + ((flags & MESSAGE_STORE_HOST_V6) != 0) * V6_EXTRA_BYTES
        buffer = np.frombuffer(columns.buffer, dtype=np.uint8)
        places = heads[:, None] + BODY_CRC_OFFSET + np.arange(4)
        stated = np.ascontiguousarray(buffer[places]).view(">i4")[:, 0]
        view = memoryview(columns.buffer)
        bodies = zip(
            (heads + hosts + _BODY_OFFSET_V4).tolist(),
            (numbers[:, TOPIC_BEGIN] - 1).tolist(),
            stated.tolist(),
            strict=True,
        )
        for row, (body_begin, body_end, crc) in enumerate(bodies):
            if body_end > body_begin and body_crc(view[body_begin:body_end]) != crc:
                self._note(columns.request(row))

    def _note(self, request: DispatchRequest) -> None:
        self.damaged_count += 1
        if len(self.damaged) < DAMAGED_BODIES_KEPT_MAX:
            place = request.physical_offset, request.topic, request.queue_id, request.queue_offset
            self.damaged.append(DamagedBody(*place))
