"""ReplicaFetch: a replica's end of the connection to the master of its group.

    greets      the hello was sent
    cuts        the answer was accepted; bytes behind the common point are set aside and cut
    follows     acknowledges what is durable, and appends what comes

Rules:
- A lower epoch than the promised one is refused. The master's epoch is promised durably before the
  first acknowledgement.
- Nothing is cut below what was known to be confirmed: that is a mistake or another log.
- Nothing is cut or appended before the checksum before the common point has fitted.
- A frame begins at the own end. Its epoch is noted durably before its bytes are appended.
- Seeding ends when the own durable log has all that is confirmed, and reaches into the epoch.

Source: 5.x's AutoSwitchHAClient (org.apache.rocketmq.store.ha.autoswitch).
"""

from collections.abc import Callable
from typing import NamedTuple

from wakelog.broker.replication.epochs import EpochLine, Epochs, common_point
from wakelog.broker.replication.ha_client_state import FetchEnded
from wakelog.broker.replication.member_shipping import CHECKED_BYTES, HEARTBEAT_MS, SILENT_MS_MAX
from wakelog.protocol.member_frames import Ack, Answer, DataHead, Hello


class OwnLog(NamedTuple):
    """The own log as it is before a connection. `end` is durable, behind a whole record."""

    group: str
    replica: int
    segment_bytes: int
    begin: int
    end: int


class CutLog(NamedTuple):
    """Set aside what lies behind `offset`, and cut it, both durably; nothing if it is the end.

    seed_from: where the master's log begins if the own one is empty and shall begin there.
    """

    offset: int
    seed_from: int | None


class ReplicaFetch:
    """See the module. One object for each connection.

    epoch: of the master, 0 before it has answered.
    end: where the own log ends once all that was accepted is appended.
    must_seed: the master has refused, for the two logs have too little in common.
    """

    def __init__(self, epochs: Epochs, log: OwnLog, known_confirmed: int, now_ms: int) -> None:
        """Begin on a connection. known_confirmed: the highest confirmed offset that was told."""
        self._epochs, self._log, self._known_confirmed = epochs, log, known_confirmed
        self.epoch = self._epoch_start = 0
        self.end = log.end
        self.must_seed = False
        self._is_attached = False
        self._confirmed: int | None = None
        self._begin = log.begin
        self._received_ms = self._sent_ms = now_ms
        self._acked = -1
        self._cut: CutLog | None = None

    def hello(self) -> Hello:
        """Return what to say first."""
        epochs, log = self._epochs, self._log
        return Hello(
            log.group,
            log.replica,
            epochs.log_id,
            epochs.promise,
            log.segment_bytes,
            log.begin,
            log.end,
            epochs.lines,
            epochs.is_seeding,
        )

    def check_answer(
        self, answer: Answer, checksum: Callable[[int, int], int], now_ms: int
    ) -> CutLog:
        """Check an answer, promise its epoch, and return what to cut.

        checksum: returns the CRC-32 of the own log in [begin, end).
        Raises: FetchEnded; StoreFailed, StoreFull from the epoch file.
        """
        self._received_ms = now_ms
        epochs, log = self._epochs, self._log
        if self.epoch:
            raise FetchEnded("the master answered twice")
        if answer.refusal:
            self.must_seed = answer.must_seed
            raise FetchEnded(f"the master refuses: {answer.refusal}", is_mismatch=True)
        if answer.epoch < epochs.promise or not answer.lines:
            raise FetchEnded(f"epoch {answer.epoch} is over: {epochs.promise} was promised")
        if answer.log_id != epochs.log_id:
            raise FetchEnded("the master has another log", is_mismatch=True)
        lines = tuple(EpochLine(*line) for line in answer.lines)
        if lines[-1].epoch != answer.epoch:
            raise FetchEnded("the master's last line is not of its epoch", is_mismatch=True)
        seed_from = self._check_common(answer, lines)
        if seed_from is None:
            begin = max(answer.begin, log.begin, answer.common - CHECKED_BYTES)
            if checksum(min(begin, answer.common), answer.common) != answer.checksum:
                raise FetchEnded(
                    f"the logs differ before {answer.common}: move this store away to begin with "
                    "a copy",
                    is_mismatch=True,
                )
            if answer.common < min(self._known_confirmed, log.end):
                raise FetchEnded(
                    f"the master's log fits up to {answer.common} only, and "
                    f"{self._known_confirmed} was confirmed: its store is an old copy. Name the "
                    "replica to lead by wakelog cluster failover --accept-loss; what the others "
                    "have more is cut then, and kept in wakelog.quarantine",
                    is_mismatch=True,
                )
        epochs.make_promise(answer.epoch)
        self.epoch, self._epoch_start = answer.epoch, lines[-1].start
        self._cut = CutLog(answer.common, seed_from)
        return self._cut

    def on_cut(self) -> None:
        """Note that the log now ends at the common point, durably."""
        assert self._cut is not None
        self.end = self._cut.offset
        if self._cut.seed_from is not None:
            self._begin = self._cut.seed_from
        lines = self._epochs.lines
        self._epochs.cut(tuple(line for line in lines if line.start < self.end))
        self._is_attached = True

    def accept_head(self, head: DataHead, now_ms: int) -> bool:
        """Accept a frame; return whether its bytes are to be appended at `offset`, the own end.

        Raises: FetchEnded; StoreFailed, StoreFull from the epoch file.
        """
        self._received_ms = now_ms
        epochs = self._epochs
        if not self._is_attached or epochs.promise != self.epoch:
            raise FetchEnded(f"epoch {self.epoch} is over, or has not begun")
        if head.offset != self.end or head.epoch > self.epoch:
            raise FetchEnded(f"{self.end} should come next, and {head.offset} came")
        self._confirmed = max(self._confirmed or 0, head.confirmed)
        if not head.size_bytes:
            return False
        line = EpochLine(head.epoch, head.epoch_start)
        last = epochs.lines[-1] if epochs.lines else None
        if line != last:
            is_first = last is None or self.end == self._begin
            if not (last is None or line.epoch > last.epoch) or not (
                line.start == self.end or (is_first and line.start <= self.end)
            ):
                raise FetchEnded(f"bytes at {head.offset} of {line}, after {last}")
            epochs.begin(line)
        self.end += head.size_bytes
        return True

    def next_ack(self, durable: int, now_ms: int) -> Ack | None:
        """Return an acknowledgement if one is due. Raises: StoreFailed, StoreFull.

        durable: how far the own log is durable, in whole records.
        """
        if not self._is_attached or self._epochs.promise != self.epoch:
            return None
        durable = min(durable, self.end)
        if durable <= self._acked and now_ms < self._sent_ms + HEARTBEAT_MS:
            return None
        # Before the master has told what is confirmed, reaching it would prove nothing.
        confirmed = self._confirmed
        if confirmed is not None and durable >= max(confirmed, self._epoch_start):
            self._epochs.end_seeding()
        self._acked, self._sent_ms = durable, now_ms
        return Ack(self.epoch, durable, self._epochs.is_seeding)

    def why_over(self, now_ms: int) -> str:
        """Return why the connection is of no more use, "" if it is."""
        silent_ms = now_ms - self._received_ms
        if silent_ms > SILENT_MS_MAX:
            return f"nothing was received for {silent_ms} ms"
        return "a higher epoch was promised" if self._epochs.promise > self.epoch > 0 else ""

    def _check_common(self, answer: Answer, lines: tuple[EpochLine, ...]) -> int | None:
        """Check the common point; return where an empty log shall begin, None for a log as it is.

        Raises: FetchEnded.
        """
        epochs, log = self._epochs, self._log
        common = common_point(epochs.lines, log.end, lines, answer.end)
        if common is None and log.begin == log.end:
            common = log.end
            if epochs.is_seeding and answer.common >= answer.begin >= log.end:
                return answer.common
        if common != answer.common or common < log.begin:
            raise FetchEnded(
                f"the master names {answer.common} as the common point, and it is {common}",
                is_mismatch=True,
            )
        return None
