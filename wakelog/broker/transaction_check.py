"""TransactionCheck: which half messages to ask their producers about, to renew or to give up.

A round looks at the half queue from the group's offset on, with the op messages that say which half
messages are ended. In the order of 4.9.3, for each half message:

    ended, or put back already:                                               passed by
    checked `count_max` times, or born before the time that files are kept:   DISCARD
    stored since the round began:                                             the round ends
    born less than `timeout_ms` ago:                                          the round ends
    the same, but with CHECK_IMMUNITY_TIME_IN_SECONDS of its own:             RENEW
    no op message is left to read:                                            CHECK

CHECK and RENEW put the half message back at the end of its queue, so that the offset can pass it.
A CHECK also asks the producer. The count of checks grows with each of the three, RENEW included.

A half message that was put back for its own time names the half message it was first in
TRAN_PREPARED_QUEUE_OFFSET: the producer ends that one. So it is ended by an op message of either,
and the op message of the first is kept while a copy may name it.

The offsets are saved every few seconds. A Broker that was killed begins again at earlier ones.
Then what it has put back is in the queue twice, and to ask about both would deliver the message
twice. So below the queue's end at the start (`copies_end`) a half message is passed by if a copy
of it follows.

Invariants:
    - the half offset passes no message that is neither ended nor in a decision.
    - the op offset passes an op message only if its half message and all copies that name it are
      passed, too.
    - a call returns at most ``DECISIONS_MAX`` decisions and passes ``PASSED_MAX`` messages.
    - it passes no message whose copies are not known yet (`EarlierCopies.known_end`).

Five things differ. 4.9.3 asks about every copy. It stops at op messages that were born `timeout_ms`
after the round began; in a long round it asks about what is ended. It asks about every half message
when its op offset is before the queue's begin; here the op messages are read from there. It passes
the op message of a first half message with that one, and reads no further op messages before it
puts back or gives up: it asks about a renewed copy whose transaction is ended. And where 4.9.3
spins until the time has come, the round ends.

Source: org.apache.rocketmq.broker.transaction.queue.TransactionalMessageServiceImpl.check,
fillOpRemoveMap, needDiscard, needSkip, checkPrepareQueueOffset, calculateOpOffset (4.9.3).
"""

from enum import StrEnum
from typing import Final

import msgspec

from wakelog.broker.half_copies import EarlierCopies, RenewedCopies
from wakelog.broker.half_queue import HalfMessage, OpMessage, ReadHalves, ReadOps, long, next_page
from wakelog.protocol.java import parse_integer

ROUND_MS_MAX: Final = 60_000
DECISIONS_MAX: Final = 64  # about 2 ms of the Broker's loop
PASSED_MAX: Final = 4_096  # about 0.1 s of reading


class Action(StrEnum):
    """What to do with a half message."""

    CHECK = "check"
    RENEW = "renew"
    DISCARD = "discard"


class Decision(msgspec.Struct, frozen=True):
    """What to do with one half message.

    check_times: the property's new value, None to leave it as it is.
    """

    action: Action
    queue_offset: int
    physical_offset: int
    size_bytes: int
    check_times: int | None


class CheckRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Where to begin, and by which times to judge.

    started_ms: when the round began, which may have taken several calls.
    copies_end: the end of the half queue when the Broker started. Below it a half message may be
        there that was put back already.
    """

    half_offset: int
    op_offset: int
    started_ms: int
    now_ms: int
    timeout_ms: int
    count_max: int
    reserved_ms: int
    copies_end: int = 0


class CheckBatch(msgspec.Struct, frozen=True):
    """Decisions to carry out in order, and the offsets to commit once that is done.

    has_more: whether the round goes on from these offsets.
    """

    decisions: tuple[Decision, ...]
    half_offset: int
    op_offset: int
    has_more: bool


def check_half_messages(
    request: CheckRequest,
    read_halves: ReadHalves,
    read_ops: ReadOps,
    copies: EarlierCopies,
    renewed: RenewedCopies,
) -> CheckBatch:
    """Decide about the next half messages of a round.

    read_halves, read_ops: return messages of their queue from a queue offset on.
    copies, renewed: kept from call to call, for as long as the Broker runs.
    """
    copies.begin_call(request.half_offset, request.copies_end, read_halves)
    renewed.begin_call(request.half_offset, request.started_ms, read_halves)
    return _Check(request, read_halves, read_ops, copies, renewed).run()


class _Check:
    """One call: what was read and decided so far."""

    def __init__(
        self,
        request: CheckRequest,
        read_halves: ReadHalves,
        read_ops: ReadOps,
        copies: EarlierCopies,
        renewed: RenewedCopies,
    ) -> None:
        self._request = request
        self._copies = copies
        self._renewed = renewed
        self._read_halves = read_halves
        self._read_ops = read_ops
        self._next = request.half_offset
        self._halves: dict[int, HalfMessage] = {}
        self._op_begin = self._op_next = request.op_offset
        self._has_more_ops = True
        self._ops: list[OpMessage] = []  # all that were read
        self._ended: set[int] = set()  # half offsets that they name
        self._decisions: list[Decision] = []

    def run(self) -> CheckBatch:
        request = self._request
        self._fill()
        begin, has_more = request.half_offset, False
        if request.now_ms - request.started_ms <= ROUND_MS_MAX:
            while not (has_more := self._is_enough(begin)) and self._pass_one():
                pass
        return CheckBatch(tuple(self._decisions), self._next, self._op_offset(), has_more)

    def _is_enough(self, begin: int) -> bool:
        """Return whether the round goes on in another call."""
        is_full = len(self._decisions) == DECISIONS_MAX or self._next - begin >= PASSED_MAX
        return is_full or self._next >= self._copies.known_end

    def _pass_one(self) -> bool:
        """Pass the next half message; False if the round ends before it."""
        if self._next in self._ended:
            self._next += 1
            return True
        half = self._half()
        if half is None:
            return False
        if half.queue_offset > self._next:  # the log no longer has those between
            self._next = half.queue_offset
            return True
        if not self._copies.has_copy(half) and not self._check_half(half):
            return False
        self._next += 1
        return True

    def _check_half(self, half: HalfMessage) -> bool:
        """Pass a half message that is ended, or decide about it; False if the round ends."""
        request = self._request
        age_ms = request.now_ms - half.born_timestamp_ms
        times = _check_times(half, request.count_max)
        if times is None or age_ms > request.reserved_ms:
            return self._find_end(half) or self._decide(Action.DISCARD, half, times)
        if half.store_timestamp_ms >= request.started_ms:
            return False
        immunity_ms = request.timeout_ms
        if half.immunity_seconds is not None:
            seconds = long(half.immunity_seconds)
            immunity_ms = request.timeout_ms if seconds == -1 else seconds * 1_000
            if age_ms < immunity_ms and half.first_offset != -1:
                return self._find_end(half) or self._decide(Action.RENEW, half, times)
        elif 0 <= age_ms < immunity_ms:
            return False
        if self._find_end(half):
            return True
        # A negative age: born by a clock that is ahead of ours.
        is_due = age_ms < 0 or age_ms > immunity_ms
        return is_due and self._decide(Action.CHECK, half, times)

    def _find_end(self, half: HalfMessage) -> bool:
        """Return whether a half message is ended; read op messages until that is known."""
        while half.queue_offset not in self._ended and half.first_offset not in self._ended:
            if not self._has_more_ops:
                return False
            self._fill()
        return True

    def _decide(self, action: Action, half: HalfMessage, times: int | None) -> bool:
        place = half.queue_offset, half.physical_offset, half.size_bytes
        self._decisions.append(Decision(action, *place, times))
        if action is Action.RENEW or (action is Action.CHECK and half.first_offset is not None):
            self._renewed.add_put_back(half)
        return True

    def _half(self) -> HalfMessage | None:
        """Return the next half message that is there, None at the end of the queue."""
        found = self._halves.get(self._next)
        if found is None:
            page = next_page(self._read_halves, self._next)
            self._halves = {half.queue_offset: half for half in page.messages}
            found = next(iter(self._halves.values()), None)
        return found

    def _fill(self) -> None:
        """Read the next op messages."""
        page = next_page(self._read_ops, self._op_next)
        self._op_next = page.next_offset
        if not self._ops:
            first = page.messages[0].queue_offset if page.messages else page.next_offset
            self._op_begin = first
        self._has_more_ops = bool(page.messages)
        self._ops += page.messages
        named = (op.half_offset for op in page.messages)
        self._ended.update(offset for offset in named if offset is not None and offset >= 0)

    def _op_offset(self) -> int:
        """Return the offset of the first unfinished op message; read nothing."""
        end = self._op_begin
        for op in self._ops:
            if op.queue_offset != end or not self._is_done(op):
                break
            end += 1
        return end

    def _is_done(self, op: OpMessage) -> bool:
        """Return whether no half message needs it; one that ends nothing stays, as in 4.9.3."""
        ends = op.half_offset
        return ends is not None and ends < self._next and not self._renewed.is_named(ends)


def _check_times(half: HalfMessage, count_max: int) -> int | None:
    """Return how many checks the message has had with this one; None if it had too many."""
    if half.check_times is None:
        return 1
    try:
        times = parse_integer(half.check_times)
    except ValueError:
        times = -1
    return None if times >= count_max else times + 1
