"""Following: the connection of a slave to its master.

The slave reports where it wants the log from, at once after it has connected, and the master sends
from there. That is a little below the end of the own log: what comes of that overlap is compared
with the own bytes. Then whole records are handed on to be appended, at the master's offsets. What
came of the next record waits here. A segment with bytes that are no record is handed on as it comes
from there to its end: damage of a master is copied, and passed over, like damage of one's own.

Reports after the first one are what is durable here: after `fdatasync`, not after a write.

Invariants:
- a frame begins where the one before it ended, and ends in the same segment, else following ends.
- what is handed on begins at the own end, and ends after a record or in damage.

Source: org.apache.rocketmq.store.ha.HAService.HAClient (4.9.3), which reports after 5 s, appends
wherever its own log ends, and reports what is in the page cache.
"""

from typing import Final, NamedTuple

from wakelog.protocol.ha_frames import BrokenStream, FrameReader, LogFrame, encode_report
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
    SYS_FLAG_OFFSET,
)

OVERLAP_BYTES_MAX: Final = 1 << 20
"""How much of the own log is compared with the master's before anything is appended."""

RECORD_BYTES_MAX: Final = 64 << 20
"""A longer record is handed on in parts; it bounds what waits in memory."""


class FollowingEnded(Exception):
    """The connection is of no use any more.

    is_mismatch: the logs do not fit; connecting again brings the same.
    """

    def __init__(self, cause: str, *, is_mismatch: bool = False) -> None:
        """Keep the cause as the text."""
        super().__init__(cause)
        self.is_mismatch = is_mismatch


class MasterLog(NamedTuple):
    """What a master says of its log."""

    begin: int
    end: int
    segment_bytes: int


class FollowingSettings(NamedTuple):
    """Times, by 4.9.3's keys."""

    heartbeat_ms: int = 5_000
    housekeeping_ms: int = 20_000


class Received(NamedTuple):
    """Bytes for the own log, which ends at `offset`; all in one segment.

    stored_ms: the store time of the last record, 0 if there is none.
    """

    offset: int
    data: bytes
    stored_ms: int


def check_log(own_end: int, segment_bytes: int, master: MasterLog) -> None:
    """Compare the own log with what a master says of its own.

    Raises: FollowingEnded, with the cause and what to do.
    """
    if segment_bytes != master.segment_bytes:
        raise FollowingEnded(
            f"segments have {segment_bytes} bytes here and {master.segment_bytes} there: set "
            f"mappedFileSizeCommitLog={master.segment_bytes} and begin with an empty store",
            is_mismatch=True,
        )
    if own_end > master.end:
        raise FollowingEnded(
            f"the own log ends at {own_end} and the master's at {master.end}: this store has what "
            "the master lost; move it away to begin again",
            is_mismatch=True,
        )
    if own_end < master.begin:
        raise FollowingEnded(
            f"the own log ends at {own_end} and the master's begins at {master.begin}: what lies "
            "between was deleted there; move this store away to begin again",
            is_mismatch=True,
        )


def overlap_begin(own_begin: int, own_end: int, master: MasterLog) -> int:
    """Return from where to compare the own log with the master's, `own_end` for nothing."""
    return max(own_begin, master.begin, own_end - OVERLAP_BYTES_MAX)


class Following:
    """See the module. One object for each connection."""

    def __init__(
        self,
        settings: FollowingSettings,
        master: MasterLog,
        *,
        own_end: int,
        overlap: bytes,
        now_ms: int,
    ) -> None:
        """Begin on a connection that was just made.

        own_end: where the own log ends, with a whole record.
        overlap: the last bytes of the own log, which end there.
        """
        assert own_end <= master.end and len(overlap) <= own_end
        self._settings = settings
        self._segment_bytes = master.segment_bytes
        self._frames = FrameReader()
        self._overlap = memoryview(overlap)
        self._end = own_end
        self._expected = self._first = own_end - len(overlap)
        self._waiting = bytearray()
        self._raw_until = 0
        self._received_ms = self._sent_ms = now_ms
        self.received_bytes = 0
        if self._first == 0 and master.end > 0:
            # 0 asks for the last segment alone. 1 asks for all but the first byte, which is known:
            # a record's size is below 16 MiB in every log that 4.9.3 makes.
            self._first = self._expected = 1
            if self._overlap:
                self._overlap = self._overlap[1:]
            else:
                self._waiting += b"\0"
        self._reported = self._first

    @property
    def end(self) -> int:
        """Where the own log ends once all that was handed on is appended."""
        return self._end

    def first_report(self) -> bytes:
        """Return the bytes to send at once."""
        return encode_report(self._first)

    def receive(self, data: bytes, now_ms: int) -> list[Received]:
        """Return what is to be appended to the own log, in order. Raises: FollowingEnded."""
        self._received_ms = now_ms
        self.received_bytes += len(data)
        try:
            frames = self._frames.read(data)
        except BrokenStream as error:
            raise FollowingEnded(error.remark) from None
        found: list[Received] = []
        for frame in frames:
            self._take(frame)
            segment_end = self._segment_end(self._end)
            if self._end + len(self._waiting) >= segment_end:
                found += self._whole_records(segment_end)
        found += self._whole_records(self._segment_end(self._end))
        return found

    def next_report(self, durable: int, now_ms: int) -> bytes | None:
        """Return a report if the durable end has moved or the master must hear of this slave."""
        # A master refuses more than it has sent, and a lower number than before would mean nothing.
        offset = max(self._reported, min(durable, self._expected))
        is_due = now_ms >= self._sent_ms + self._settings.heartbeat_ms
        if offset <= self._reported and not is_due:
            return None
        self._reported, self._sent_ms = offset, now_ms
        return encode_report(offset)

    def next_ms(self) -> int:
        """Return when a report or the end of a silent connection is due."""
        silent_ms = self._received_ms + self._settings.housekeeping_ms + 1
        return min(silent_ms, self._sent_ms + self._settings.heartbeat_ms)

    def check_silence(self, now_ms: int) -> None:
        """Give up a master that is silent. Raises: FollowingEnded."""
        silent_ms = now_ms - self._received_ms
        if silent_ms > self._settings.housekeeping_ms:
            raise FollowingEnded(f"nothing was received for {silent_ms} ms")

    def _take(self, frame: LogFrame) -> None:
        size = len(frame.data)
        if frame.offset != self._expected:
            raise FollowingEnded(f"{self._expected} should come next, and {frame.offset} came")
        if size and self._segment_end(frame.offset) < frame.offset + size:
            raise FollowingEnded(
                f"a frame of {size} bytes at {frame.offset} crosses the end of a segment",
                is_mismatch=True,
            )
        self._expected += size
        data = frame.data
        compared = min(size, len(self._overlap))
        if compared:
            if data[:compared] != self._overlap[:compared]:
                raise FollowingEnded(
                    f"the master has other bytes in [{frame.offset}, {frame.offset + compared}): "
                    "it is another log; move this store away to begin again",
                    is_mismatch=True,
                )
            self._overlap = self._overlap[compared:]
            data = data[compared:]
        self._waiting += data

    def _segment_end(self, offset: int) -> int:
        return (offset // self._segment_bytes + 1) * self._segment_bytes

    def _whole_records(self, segment_end: int) -> list[Received]:
        """Take whole records of one segment from what waits."""
        available = min(len(self._waiting), segment_end - self._end)
        position, stored_ms = 0, 0
        if self._end < self._raw_until:
            position = available
        while position < available:
            size = self._size_at(position, available, segment_end)
            if size is None:
                break
            if size < 0:
                self._raw_until, position = segment_end, available
                break
            if size >= RECORD_BYTES_MIN:
                stored_ms = _stored_ms(self._waiting, position) or stored_ms
            position += size
        if not position:
            return []
        data = bytes(self._waiting[:position])
        del self._waiting[:position]
        received = Received(self._end, data, stored_ms)
        self._end += position
        return [received]

    def _size_at(self, position: int, available: int, segment_end: int) -> int | None:
        """Return the length of what begins there; None if it is not whole, -1 if it is damage."""
        waiting, left = self._waiting, available - position
        room = segment_end - self._end - position
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
        return size if physical_offset == self._end + position else -1


def _stored_ms(data: bytearray, position: int) -> int:
    """Return the store time of a record, 0 for a blank."""
    if SIZE_AND_MAGIC.unpack_from(data, position)[1] != MESSAGE_MAGIC:
        return 0
    (sys_flag,) = INT.unpack_from(data, position + SYS_FLAG_OFFSET)
    head = CHECKED_HEADS[sys_flag & HOST_FLAGS]
    return int(head.unpack_from(data, position)[6])
