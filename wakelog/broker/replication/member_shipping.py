"""MemberShipping: a master's end of the connection of one replica of its group.

    silent    until the hello
    attaching the answer was sent: the follower cuts its log to the common point
    ships     from its first acknowledgement on
    refused   nothing more is sent

What is written is shipped, durable or not: a follower that has more than its master after a power
loss is cut to the common point when it attaches again.

Rules:
- A follower with another group, log, or segment length gets nothing, and changes nothing.
- A follower that has promised a higher epoch gets nothing, and the master hears of the promise.
- A promise that no replica can have made is not believed: the group would have no epochs left.
- An acknowledgement of another epoch, of more than was sent, or of less than before ends it.

Source: 5.x's AutoSwitchHAConnection (org.apache.rocketmq.store.ha.autoswitch).
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from wakelog.broker.replication.epochs import (
    LOG_ID_BYTES,
    EpochLine,
    Lines,
    common_point,
    line_at,
)
from wakelog.broker.replication.group_state import REPLICAS_MAX
from wakelog.protocol.member_frames import Ack, Answer, DataHead, Hello

CHECKED_BYTES: Final = 64 * 1024
"""How much of both logs is compared before the common point."""

PROMISES_MAX: Final = 1 << 20
"""How far a promise may be above the master's epoch: no replica proposes so many."""

NAME_CHARACTERS_MAX: Final = 100
"""Of a group's name in a refusal: a stranger has chosen it."""

NEW_COPY: Final = "move its store away to begin with a copy"

HEARTBEAT_MS: Final = 1_000
SILENT_MS_MAX: Final = 5_000


class MasterLogView(NamedTuple):
    """What a master ships in one epoch. `end` is what is written, in whole records."""

    group: str
    log_id: bytes
    epoch: int
    lines: Lines
    segment_bytes: int
    begin: int
    end: int


class MemberShipping:
    """See the module. One object for each connection.

    replica: whose connection it is, 0 before the hello.
    acked: what it has durably; None before its first acknowledgement.
    met_promise: an epoch that it has promised and that is higher than the master's.
    """

    def __init__(self, transfer_bytes: int, now_ms: int) -> None:
        """Wait for the hello."""
        self._transfer_bytes = transfer_bytes
        self._received_ms = self._sent_ms = now_ms
        self._reported_confirmed = -1
        self.replica = self.met_promise = self.position = 0
        self.acked: int | None = None
        self.is_seeding = False
        self.refusal = ""
        self._epoch = 0

    def answer_hello(
        self, hello: Hello, log: MasterLogView, checksum: Callable[[int, int], int], now_ms: int
    ) -> Answer:
        """Return the answer to a hello; `refusal` of both is the same.

        checksum: returns the CRC-32 of the own log in [begin, end).
        """
        assert not self.replica, self.replica
        self._received_ms = now_ms
        self.replica, self._epoch, self.is_seeding = hello.replica, log.epoch, hello.is_seeding
        if cause := _misfit(hello, log):
            return self.refuse(cause, log)
        if hello.promise > log.epoch:
            self.met_promise = hello.promise
            return self.refuse(f"the follower has promised epoch {hello.promise}", log)
        lines = tuple(EpochLine(*line) for line in hello.lines)
        common = common_point(lines, hello.end, log.lines, log.end)
        if common is None and hello.end == hello.begin:
            common = max(log.begin, hello.begin) if hello.is_seeding else hello.end
            if common > log.end:
                common = None
        if common is None or common < max(log.begin, hello.begin) or line_at(log.lines, common) < 0:
            cause = "the follower's log and the master's have nothing in common that is still there"
            return self.refuse(cause, log, must_seed=True)
        self.position = common
        begin = max(log.begin, hello.begin, common - CHECKED_BYTES)
        return Answer(
            "",
            log.epoch,
            log.log_id,
            log.begin,
            log.end,
            common,
            checksum(min(begin, common), common),
            log.lines,
        )

    def on_ack(self, ack: Ack, now_ms: int) -> None:
        """Note what the follower has; a refusal ends the connection."""
        self._received_ms = now_ms
        if self.refusal or not self.replica:
            self.refusal = self.refusal or "an acknowledgement came before the hello"
            return
        if ack.epoch != self._epoch:
            self.refusal = f"it acknowledges epoch {ack.epoch} and this is {self._epoch}"
        elif not (self.acked or 0) <= ack.durable <= self.position:
            self.refusal = (
                f"it acknowledges {ack.durable}, after {self.acked}, and {self.position} was sent"
            )
        else:
            self.acked, self.is_seeding = ack.durable, ack.is_seeding
            return
        self.acked = None

    def next_head(self, log: MasterLogView, confirmed: int, now_ms: int) -> DataHead | None:
        """Return what to send now, None for nothing; what is returned counts as sent."""
        if self.acked is None or self.refusal:
            return None
        position, size = self.position, 0
        index = line_at(log.lines, position)
        if position < log.end:
            if position < log.begin:
                self.refusal = f"{position} was removed before it was sent"
                self.acked = None
                return None
            segment_end = (position // log.segment_bytes + 1) * log.segment_bytes
            size = min(log.end, segment_end, position + self._transfer_bytes) - position
            if index + 1 < len(log.lines):
                size = min(size, log.lines[index + 1].start - position)
        elif now_ms < self._sent_ms + HEARTBEAT_MS and confirmed <= self._reported_confirmed:
            return None
        self._sent_ms, self._reported_confirmed = now_ms, confirmed
        self.position += size
        line = log.lines[index] if size else log.lines[-1]
        return DataHead(size, position, line.epoch, line.start, confirmed, log.end)

    def why_over(self, now_ms: int) -> str:
        """Return why the connection is to be closed now, "" if it is not."""
        if self.refusal:
            return self.refusal
        silent_ms = now_ms - self._received_ms
        return f"nothing was received for {silent_ms} ms" if silent_ms > SILENT_MS_MAX else ""

    def next_ms(self) -> int:
        """Return when a heartbeat or the end of the connection is due."""
        end_ms = self._received_ms + SILENT_MS_MAX + 1
        return end_ms if self.acked is None else min(end_ms, self._sent_ms + HEARTBEAT_MS)

    def refuse(self, cause: str, log: MasterLogView, *, must_seed: bool = False) -> Answer:
        """Refuse the follower that has said hello, and return the answer."""
        self.refusal = cause
        return Answer(cause, log.epoch, log.log_id, log.begin, log.end, must_seed=must_seed)


def _misfit(hello: Hello, log: MasterLogView) -> str:
    """Return why a follower is none of this group, "" if it may be one."""
    if hello.group != log.group:
        name = hello.group[:NAME_CHARACTERS_MAX]
        return f"the follower is of group {name}, and the master of {log.group}"
    if hello.log_id != log.log_id:
        own, other = log.log_id.hex(), hello.log_id[:LOG_ID_BYTES].hex()
        return f"the follower has log {other}, and the group {own}: {NEW_COPY}"
    if hello.segment_bytes != log.segment_bytes:
        own_bytes, other_bytes = log.segment_bytes, hello.segment_bytes
        return (
            f"the follower's mappedFileSizeCommitLog is {other_bytes}, and the group's {own_bytes}"
        )
    if not 1 <= hello.replica <= REPLICAS_MAX:
        return f"the follower has brokerId {hello.replica}: it goes from 1 to {REPLICAS_MAX}"
    if hello.promise - log.epoch > PROMISES_MAX:
        promise = hello.promise
        return f"the follower's epoch {promise} is far above the group's {log.epoch}: {NEW_COPY}"
    return ""
