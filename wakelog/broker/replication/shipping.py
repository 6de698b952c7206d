"""Shipping: one connection of a slave, on the master's side.

    silent   until the first report: nothing is sent, and the connection counts for nothing
    ships    from where the slave's log ends; a heartbeat after a time without data
    refused  what the slave reports cannot be true here: nothing more is sent

Only what is durable here is shipped, as the caller's range says. A slave that had more than its
master has after a power cut could never be made equal again. `haAckDurable=false` ships what is
written, as 4.9.3 does.

A refused connection stays open for a time. A 4.9.3 slave connects again at once, without a pause,
if it is closed.

Invariants:
- acked <= position, and position <= the range's end: a report of more is refused, the first too.
- no frame crosses the end of a segment or is longer than a 4.9.3 slave takes.

Source: org.apache.rocketmq.store.ha.HAConnection (4.9.3), which believes every report.
"""

from typing import Final, NamedTuple

from wakelog.protocol.ha_frames import TRANSFER_BYTES_MAX, ReportReader, encode_header

REFUSAL_HELD_MS: Final = 10_000
"""How long a refused connection stays open."""


class LogRange(NamedTuple):
    """The log that may be shipped: from the first segment's begin to what counts."""

    begin: int
    end: int
    segment_bytes: int


class Piece(NamedTuple):
    """What to send next: the header, then `size_bytes` of the log from `offset` on."""

    header: bytes
    offset: int
    size_bytes: int


class ShippingSettings(NamedTuple):
    """Times and sizes, by 4.9.3's keys."""

    heartbeat_ms: int = 5_000
    housekeeping_ms: int = 20_000
    transfer_bytes: int = TRANSFER_BYTES_MAX


class Shipping:
    """See the module.

    acked: how far the slave says that it has the log; None before its first report.
    position: the offset of the next byte to send.
    refusal: why the slave gets nothing, "" if it does.
    """

    def __init__(self, settings: ShippingSettings, now_ms: int) -> None:
        """Wait for the first report of a connection that was just accepted."""
        self._settings = settings
        self._transfer_bytes = min(settings.transfer_bytes, TRANSFER_BYTES_MAX)
        self._reports = ReportReader()
        self._received_ms = self._sent_ms = now_ms
        self._refused_ms = 0
        self.acked: int | None = None
        self.position = 0
        self.refusal = ""

    @property
    def counts(self) -> bool:
        """Whether the slave has the log up to `acked`."""
        return self.acked is not None and not self.refusal

    def receive(self, data: bytes, log: LogRange, now_ms: int) -> None:
        """Note what the slave reports."""
        self._received_ms = now_ms
        if self.refusal:
            return
        reports = self._reports.read(data)
        # 1 asks for the whole log: also for one of which nothing is durable yet.
        limit = max(log.end, 1) if self.acked is None else self.position
        for report in reports:
            if not 0 <= report <= limit:
                self.refuse(
                    f"it reports offset {report}, and {limit} is the highest that it can have",
                    now_ms,
                )
                return
        if not reports:
            return
        if self.acked is not None:
            self.acked = max(self.acked, *reports)
            return
        first = reports[-1]  # 4.9.3 looks at the last one that came with a read
        if first == 0:
            self.position = log.end - log.end % log.segment_bytes
            self.acked = 0
        elif first < log.begin:
            self.refuse(f"its log ends at {first}, and this one begins at {log.begin}", now_ms)
        else:
            self.position, self.acked = first, min(first, log.end)

    def refuse(self, cause: str, now_ms: int) -> None:
        """Send nothing more; the connection is over after a time."""
        self.refusal = cause
        self._refused_ms = now_ms

    def next_piece(self, log: LogRange, now_ms: int) -> Piece | None:
        """Return what to send now, None if there is nothing; what is returned counts as sent."""
        if not self.counts:
            return None
        size = 0
        if now_ms < self._sent_ms + self._settings.heartbeat_ms:
            segment_end = (self.position // log.segment_bytes + 1) * log.segment_bytes
            size = min(log.end, segment_end, self.position + self._transfer_bytes) - self.position
            if size <= 0:
                return None
            if self.position < log.begin:
                self.refuse(f"{self.position} was removed before it was sent", now_ms)
                return None
        self._sent_ms = now_ms
        piece = Piece(encode_header(self.position, size), self.position, size)
        self.position += size
        return piece

    def why_over(self, now_ms: int) -> str:
        """Return why the connection is to be closed now, "" if it is not."""
        if self.refusal:
            return self.refusal if now_ms >= self._refused_ms + REFUSAL_HELD_MS else ""
        silent_ms = now_ms - self._received_ms
        is_over = silent_ms > self._settings.housekeeping_ms
        return f"nothing was received for {silent_ms} ms" if is_over else ""

    def next_ms(self) -> int:
        """Return when a heartbeat or the end of the connection is due."""
        if self.refusal:
            return self._refused_ms + REFUSAL_HELD_MS
        end_ms = self._received_ms + self._settings.housekeeping_ms + 1
        if self.acked is None:
            return end_ms
        return min(end_ms, self._sent_ms + self._settings.heartbeat_ms)
