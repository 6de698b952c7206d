"""WholeRecords: what comes of another log, gathered until it is whole records.

What came of the next record waits here. A segment with bytes that are no record is handed on as it
comes from there to its end: damage of a master is copied, and passed over, like damage of one's
own.

Invariant: what is handed on begins at the own end, and ends after a record or in damage.

Source: none upstream. 4.9.3 appends what has come.
"""

from typing import Final, NamedTuple

from wakelog.protocol.record import (
    BLANK_BYTES,
    BLANK_MAGIC,
    CHECKED_HEADS,
    COMMON_HEAD,
    HOST_FLAGS,
    INT,
    MESSAGE_MAGIC,
    RECORD_BYTES_MIN,
    SIZE_AND_MAGIC,
    SIZE_MAGIC_AND_OFFSET,
    SYS_FLAG_OFFSET,
)

RECORD_BYTES_MAX: Final = 64 << 20
"""A longer record is handed on in parts; it bounds what waits in memory."""


class Received(NamedTuple):
    """Bytes for the own log, which ends at `offset`; all in one segment.

    stored_ms: the store time of the last record, 0 if there is none.
    """

    offset: int
    data: memoryview
    stored_ms: int


class WholeRecords:
    """See the module. `end` is where the own log ends once all that was handed on is appended."""

    def __init__(self, end: int, segment_bytes: int) -> None:
        """Begin behind a log that ends at `end`, with a whole record."""
        self.end = end
        self._segment_bytes = segment_bytes
        self._waiting = bytearray()
        self._raw_until = 0

    def add(self, data: bytes | memoryview) -> list[Received]:
        """Take the next bytes, all of one segment; return its records if it is full."""
        self._waiting += data
        segment_end = self.segment_end(self.end)
        return self._take(segment_end) if self.end + len(self._waiting) >= segment_end else []

    def take(self) -> list[Received]:
        """Return what is whole of what waits."""
        return self._take(self.segment_end(self.end))

    def segment_end(self, offset: int) -> int:
        """Return where the segment of a byte ends."""
        return (offset // self._segment_bytes + 1) * self._segment_bytes

    def _take(self, segment_end: int) -> list[Received]:
        available = min(len(self._waiting), segment_end - self.end)
        position, last_record = 0, -1
        waiting, end = self._waiting, self.end
        if end < self._raw_until:
            position = available
        while position < available:
            if position + SIZE_MAGIC_AND_OFFSET.size <= available:
                # Nearly all is whole records of messages, and a log may have millions of them.
                size, magic, offset = SIZE_MAGIC_AND_OFFSET.unpack_from(waiting, position)
                is_sound = magic == MESSAGE_MAGIC and offset == end + position
                if is_sound and RECORD_BYTES_MIN <= size <= available - position:
                    last_record = position
                    position += size
                    continue
            size = self._size_at(position, available, segment_end)
            if size is None:
                break
            if size < 0:
                self._raw_until, position = segment_end, available
                break
            position += size
        if not position:
            return []
        stored_ms = _stored_ms(waiting, last_record) if last_record >= 0 else 0
        data = memoryview(waiting)[:position]
        self._waiting = waiting[position:]
        received = Received(end, data, stored_ms)
        self.end += position
        return [received]

    def _size_at(self, position: int, available: int, segment_end: int) -> int | None:
        """Return the length of what begins there; None if it is not whole, -1 if it is damage."""
        waiting, left = self._waiting, available - position
        room = segment_end - self.end - position
        if room < BLANK_BYTES:
            return room if left == room else None  # 4.9.3 may leave a few bytes without a blank
        if left < BLANK_BYTES:
            return None
        size, magic = SIZE_AND_MAGIC.unpack_from(waiting, position)
        if magic == BLANK_MAGIC and size == room <= RECORD_BYTES_MAX:
            return size if size <= left else None
        if magic != MESSAGE_MAGIC or not RECORD_BYTES_MIN <= size <= min(room, RECORD_BYTES_MAX):
            return -1
        if left < size:
            return None
        _, _, physical_offset, *_ = COMMON_HEAD.unpack_from(waiting, position)
        return size if physical_offset == self.end + position else -1


def _stored_ms(data: bytearray, position: int) -> int:
    """Return the store time of a record."""
    (sys_flag,) = INT.unpack_from(data, position + SYS_FLAG_OFFSET)
    head = CHECKED_HEADS[sys_flag & HOST_FLAGS]
    return int(head.unpack_from(data, position)[6])
