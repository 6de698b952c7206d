"""HaClientState: the connection of a slave to its master.

The slave reports where it wants the log from, at once after it has connected, and the master sends
from there. That is a little below the end of the own log: what comes of that overlap is compared
with the own bytes. Then whole records are handed on to be appended, at the master's offsets.

Reports after the first one are what is durable here: after `fdatasync`. With `haAckDurable=false`
they are what is written.

Invariant: a frame begins where the one before it ended, and ends in the same segment, else
following ends.

Source: org.apache.rocketmq.store.ha.HAService.HAClient (4.9.3), which reports after 5 s, appends
wherever its own log ends, and reports what is in the page cache.
"""

from typing import Final, NamedTuple

from wakelog.broker.replication.whole_records import Received, WholeRecords
from wakelog.protocol.ha_frames import BrokenStream, FrameReader, LogFrame, encode_report

OVERLAP_BYTES_MAX: Final = 1 << 20
"""How much of the own log is compared with the master's before anything is appended."""

BEGIN_AGAIN: Final = "stop this broker and give `wakelog cluster reseed`, to begin again"


class FetchEnded(Exception):
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


class HaClientSettings(NamedTuple):
    """Times, by 4.9.3's keys."""

    heartbeat_ms: int = 5_000
    housekeeping_ms: int = 20_000


def check_log(own_end: int, segment_bytes: int, master: MasterLog) -> None:
    """Compare the own log with what a master says of its own.

    Raises: FetchEnded, with the cause and what to do.
    """
    if segment_bytes != master.segment_bytes:
        raise FetchEnded(
            f"segments have {segment_bytes} bytes here and {master.segment_bytes} there: set "
            f"mappedFileSizeCommitLog={master.segment_bytes} and begin with an empty store",
            is_mismatch=True,
        )
    if own_end > master.end:
        raise FetchEnded(
            f"the own log ends at {own_end} and the master's at {master.end}: this store has what "
            f"the master lost; {BEGIN_AGAIN}",
            is_mismatch=True,
        )
    if own_end < master.begin:
        raise FetchEnded(
            f"the own log ends at {own_end} and the master's begins at {master.begin}: what lies "
            f"between was deleted there; {BEGIN_AGAIN}",
            is_mismatch=True,
        )


def overlap_begin(own_begin: int, own_end: int, master: MasterLog) -> int:
    """Return from where to compare the own log with the master's, `own_end` for nothing."""
    return max(own_begin, master.begin, own_end - OVERLAP_BYTES_MAX)


class HaClientState:
    """See the module. One object for each connection."""

    def __init__(
        self,
        settings: HaClientSettings,
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
        self._records = WholeRecords(own_end, master.segment_bytes)
        self._expected = self._first = own_end - len(overlap)
        self._received_ms = self._sent_ms = now_ms
        self.received_bytes = 0
        if self._first == 0 and master.end > 0:
            # 0 asks for the last segment alone. 1 asks for all but the first byte, which is known:
            # a record's size is below 16 MiB in every log that 4.9.3 makes.
            self._first = self._expected = 1
            if self._overlap:
                self._overlap = self._overlap[1:]
            else:
                self._records.add(b"\0")
        self._reported = self._first

    @property
    def end(self) -> int:
        """Where the own log ends once all that was handed on is appended."""
        return self._records.end

    def first_report(self) -> bytes:
        """Return the bytes to send at once."""
        return encode_report(self._first)

    def receive(self, data: bytes | memoryview, now_ms: int) -> list[Received]:
        """Return what is to be appended to the own log, in order. Raises: FetchEnded."""
        self._received_ms = now_ms
        self.received_bytes += len(data)
        try:
            frames = self._frames.read(data)
        except BrokenStream as error:
            raise FetchEnded(error.remark) from None
        found: list[Received] = []
        for frame in frames:
            found += self._records.add(self._checked(frame))
        return found + self._records.take()

    def next_report(self, acknowledged: int, now_ms: int) -> bytes | None:
        """Return a report if that end has moved or the master must hear of this slave."""
        # A master refuses more than it has sent, and a lower number than before would mean nothing.
        offset = max(self._reported, min(acknowledged, self._expected))
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
        """Give up a master that is silent. Raises: FetchEnded."""
        silent_ms = now_ms - self._received_ms
        if silent_ms > self._settings.housekeeping_ms:
            raise FetchEnded(f"nothing was received for {silent_ms} ms")

    def _checked(self, frame: LogFrame) -> memoryview:
        """Return what of a frame lies behind the own log."""
        size = len(frame.data)
        if frame.offset != self._expected:
            raise FetchEnded(f"{self._expected} should come next, and {frame.offset} came")
        if size and self._records.segment_end(frame.offset) < frame.offset + size:
            raise FetchEnded(
                f"a frame of {size} bytes at {frame.offset} crosses the end of a segment",
                is_mismatch=True,
            )
        self._expected += size
        data = frame.data
        compared = min(size, len(self._overlap))
        if compared:
            if data[:compared] != self._overlap[:compared]:
                raise FetchEnded(
                    f"the master has other bytes in [{frame.offset}, {frame.offset + compared}): "
                    f"it is another log; {BEGIN_AGAIN}",
                    is_mismatch=True,
                )
            self._overlap = self._overlap[compared:]
            data = data[compared:]
        return data
