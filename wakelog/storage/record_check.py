"""Is there a sound record at this place? The one question that recovery, reput and verify ask.

Source: org.apache.rocketmq.store.CommitLog#checkMessageAndReturnSize (4.9.3).
"""

from __future__ import annotations

import enum
from typing import NamedTuple

Buffer = bytes | bytearray | memoryview


class CheckKind(enum.Enum):
    """What stands at a place of the log."""

    SOUND = "sound"
    END_OF_FILE = "end of file"  # the blank: go on at the next segment
    SIZE_MISMATCH = "size mismatch"  # a plausible total size that its parts do not add up to
    BAD = "bad"
    INCOMPLETE = "incomplete"  # the buffer ends first; only if more of the segment lies behind it


class RecordCheck(NamedTuple):
    """The answer. `size_bytes` is the total size for SOUND, SIZE_MISMATCH and INCOMPLETE, else 0."""

    kind: CheckKind
    size_bytes: int
    store_timestamp_ms: int = 0
    reason: str = ""


def check_record(
    buffer: Buffer,
    position: int,
    physical_offset: int,
    end: int,
    *,
    segment_end: int | None = None,
    check_body: bool = False,
) -> RecordCheck:
    """Check the record whose first byte is buffer[position] and lies at `physical_offset`.

    end: position in `buffer` after the last byte that may be read.
    segment_end: physical offset at which the segment ends; None if it ends at `end`.
    check_body: also compare the CRC of the body.
    """
    raise NotImplementedError
