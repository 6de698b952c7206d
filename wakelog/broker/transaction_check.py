"""TransactionCheck: which half messages to ask their producers about, to renew or to give up.

A round looks at the half queue from the group's offset on, with the op messages that say which half
messages are ended. In the order of 4.9.3, for each half message:

    ended, or put back already  passed by
    checked `count_max` times, or born before the time that files are kept:   DISCARD
    stored since the round began:                                             the round ends
    born less than `timeout_ms` ago:                                          the round ends
    the same, but with CHECK_IMMUNITY_TIME_IN_SECONDS of its own:             RENEW
    no op message is left to read:                                            CHECK

CHECK and RENEW put the half message back at the end of its queue, so that the offset can pass it.
A CHECK also asks the producer. The count of checks grows with each of the three, RENEW included.

A half message that was put back for its own time names the half message it was first in
TRAN_PREPARED_QUEUE_OFFSET: the producer ends that one.

The offsets are saved every few seconds. A Broker that was killed begins again at earlier ones.
Then what it has put back is in the queue twice, and to ask about both would deliver the message
twice. So below the queue's end at the start (`copies_end`) a half message is passed by if a copy
of it follows.

Invariants:
    - the half offset passes no message that is neither ended nor in a decision.
    - the op offset passes an op message only if its half message is passed, too.
    - a call returns at most ``DECISIONS_MAX`` decisions and passes ``PASSED_MAX`` messages.

Three things differ. 4.9.3 asks about every copy. It asks about every half message when its op
offset is before the queue's begin; here the op messages are read from there. And where 4.9.3 spins
until the time has come, the round ends.

Source: org.apache.rocketmq.broker.transaction.queue.TransactionalMessageServiceImpl.check,
fillOpRemoveMap, needDiscard, needSkip, checkPrepareQueueOffset, calculateOpOffset (4.9.3).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, Generic, TypeVar

import msgspec

from wakelog.broker.transactions import REMOVE_TAG
from wakelog.protocol.java import LONG_MAX, LONG_MIN, parse_integer
from wakelog.protocol.properties import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    TAGS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQ_KEY,
    decode_properties,
)
from wakelog.protocol.record import MessageRecord

ROUND_MS_MAX: Final = 60_000
DECISIONS_MAX: Final = 64  # about 2 ms of the Broker's loop
PASSED_MAX: Final = 4_096  # about 0.1 s of reading
COPIES_READ_MAX: Final = 100_000  # half messages that are read for copies, some 4 s

Message = TypeVar("Message")


class Page(msgspec.Struct, Generic[Message], frozen=True):
    """What one read of a queue found, in queue order.

    next_offset: where to go on. Without messages, this is the offset that was read from if the
        queue ends there, and else the next one at which there may be messages.
    """

    messages: Sequence[Message]
    next_offset: int


class HalfMessage(msgspec.Struct, frozen=True):
    """What the rules need of a half message; the three texts are properties."""

    queue_offset: int
    physical_offset: int
    size_bytes: int
    born_timestamp_ms: int
    store_timestamp_ms: int
    check_times: str | None = None
    immunity_seconds: str | None = None
    prepared_queue_offset: str | None = None
    unique_key: str | None = None


class OpMessage(msgspec.Struct, frozen=True):
    """What the rules need of an op message; half_offset is None if it ends nothing."""

    queue_offset: int
    half_offset: int | None
    born_timestamp_ms: int


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


ReadHalves = Callable[[int], Page[HalfMessage]]
ReadOps = Callable[[int], Page[OpMessage]]


Copies = Mapping[tuple[str, int], int]
"""Of what was put back, by unique key and birth: the queue offset of the last copy."""


def check_half_messages(
    request: CheckRequest, read_halves: ReadHalves, read_ops: ReadOps, copies: Copies
) -> CheckBatch:
    """Decide about the next half messages of a round.

    read_halves, read_ops: return messages of their queue from a queue offset on.
    copies: as `find_copies` returns them.
    """
    return _Check(request, read_halves, read_ops, copies).run()


def find_copies(request: CheckRequest, read_halves: ReadHalves) -> Copies:
    """Return what was put back from the half offset up to `copies_end`.

    At most COPIES_READ_MAX half messages are read; a copy behind them is not known.
    """
    found: dict[tuple[str, int], int] = {}
    offset = request.half_offset
    end = min(request.copies_end, offset + COPIES_READ_MAX)
    while offset < end:
        page = _read_on(read_halves, offset)
        for half in page.messages:
            if half.unique_key and half.check_times is not None and half.queue_offset < end:
                found[half.unique_key, half.born_timestamp_ms] = half.queue_offset
        if page.next_offset <= offset:
            break
        offset = page.next_offset
    return found


def half_message(record: MessageRecord) -> HalfMessage:
    """Return what the rules need of a record of the half queue."""
    properties = decode_properties(record.properties_text)
    return HalfMessage(
        record.queue_offset,
        record.physical_offset,
        record.size_bytes,
        record.born_timestamp_ms,
        record.store_timestamp_ms,
        properties.get(TRANSACTION_CHECK_TIMES),
        properties.get(CHECK_IMMUNITY_TIME_IN_SECONDS),
        properties.get(TRANSACTION_PREPARED_QUEUE_OFFSET),
        properties.get(UNIQ_KEY),
    )


def op_message(record: MessageRecord) -> OpMessage:
    """Return what the rules need of a record of the op queue."""
    ends = decode_properties(record.properties_text).get(TAGS) == REMOVE_TAG
    half_offset = _long(record.body.decode("utf-8", "replace")) if ends else None
    return OpMessage(record.queue_offset, half_offset, record.born_timestamp_ms)


class _Check:
    """One call: what was read and decided so far."""

    def __init__(
        self, request: CheckRequest, read_halves: ReadHalves, read_ops: ReadOps, copies: Copies
    ) -> None:
        self._request = request
        self._copies = copies
        self._read_halves = read_halves
        self._read_ops = read_ops
        self._next = request.half_offset
        self._halves: dict[int, HalfMessage] = {}
        self._op_begin = self._op_next = request.op_offset
        self._op_born_ms: int | None = None  # of the last op message read, None at the end
        self._removed: dict[int, int] = {}  # by half offset: the op message's offset
        self._done_ops: list[int] = []
        self._decisions: list[Decision] = []

    def run(self) -> CheckBatch:
        request = self._request
        self._fill()
        begin, has_more = request.half_offset, False
        if request.now_ms - request.started_ms <= ROUND_MS_MAX:
            while self._pass_one():
                if len(self._decisions) == DECISIONS_MAX or self._next - begin >= PASSED_MAX:
                    has_more = True
                    break
        return CheckBatch(tuple(self._decisions), self._next, self._op_offset(), has_more)

    def _pass_one(self) -> bool:
        """Pass the next half message; False if the round ends before it."""
        removed = self._removed.pop(self._next, None)
        if removed is not None:
            self._done_ops.append(removed)
            self._next += 1
            return True
        half = self._half()
        if half is None:
            return False
        if half.queue_offset > self._next:  # the log no longer has those between
            self._next = half.queue_offset
            return True
        if not self._is_put_back(half) and not self._judge(half):
            return False
        self._next += 1
        return True

    def _is_put_back(self, half: HalfMessage) -> bool:
        key = half.unique_key or "", half.born_timestamp_ms
        return self._copies.get(key, -1) > half.queue_offset

    def _judge(self, half: HalfMessage) -> bool:
        """Decide about a half message that no op message was found for so far."""
        request = self._request
        age_ms = request.now_ms - half.born_timestamp_ms
        times = _check_times(half, request.count_max)
        if times is None or age_ms > request.reserved_ms:
            self._decide(Action.DISCARD, half, times)
            return True
        if half.store_timestamp_ms >= request.started_ms:
            return False
        immunity_ms = request.timeout_ms
        if half.immunity_seconds is not None:
            seconds = _long(half.immunity_seconds)
            immunity_ms = request.timeout_ms if seconds == -1 else seconds * 1_000
            if age_ms < immunity_ms and self._keep_immune(half, times):
                return True
        elif 0 <= age_ms < immunity_ms:
            return False
        while not self._is_due(age_ms, immunity_ms):
            if self._op_born_ms is None:
                return False
            self._fill()
            removed = self._removed.pop(half.queue_offset, None)
            if removed is not None:
                self._done_ops.append(removed)
                return True
        self._decide(Action.CHECK, half, times)
        return True

    def _is_due(self, age_ms: int, immunity_ms: int) -> bool:
        if age_ms <= -1:  # born by a clock that is ahead of ours
            return True
        if self._op_born_ms is None:
            return age_ms > immunity_ms
        return self._op_born_ms - self._request.started_ms > self._request.timeout_ms

    def _keep_immune(self, half: HalfMessage, times: int) -> bool:
        """Pass a half message that is not to be checked yet; False if it names no other."""
        if half.prepared_queue_offset is not None:
            prepared = _long(half.prepared_queue_offset)
            if prepared == -1:
                return False
            removed = self._removed.pop(prepared, None)
            if removed is not None:
                self._done_ops.append(removed)
                return True
        self._decide(Action.RENEW, half, times)
        return True

    def _decide(self, action: Action, half: HalfMessage, times: int | None) -> None:
        place = half.queue_offset, half.physical_offset, half.size_bytes
        self._decisions.append(Decision(action, *place, times))

    def _half(self) -> HalfMessage | None:
        """Return the next half message that is there, None at the end of the queue."""
        found = self._halves.get(self._next)
        if found is None:
            page = _read_on(self._read_halves, self._next)
            self._halves = {half.queue_offset: half for half in page.messages}
            found = next(iter(self._halves.values()), None)
        return found

    def _fill(self) -> None:
        """Read the next op messages."""
        page = _read_on(self._read_ops, self._op_next)
        skips = self._op_next == self._op_begin and not self._removed and not self._done_ops
        self._op_next = page.next_offset
        if skips:
            first = page.messages[0].queue_offset if page.messages else page.next_offset
            self._op_begin = first
        self._op_born_ms = page.messages[-1].born_timestamp_ms if page.messages else None
        for op in page.messages:
            if op.half_offset is None:
                continue
            if op.half_offset < self._request.half_offset:
                self._done_ops.append(op.queue_offset)
            else:
                self._removed[op.half_offset] = op.queue_offset

    def _op_offset(self) -> int:
        return _end_of_run(self._done_ops, self._op_begin)


def _read_on(read: Callable[[int], Page[Message]], offset: int) -> Page[Message]:
    """Read from an offset on, or from where there are messages if that is further or before."""
    page = read(offset)
    if not page.messages and page.next_offset != offset:
        page = read(page.next_offset)
    return page


def _end_of_run(offsets: Iterable[int], begin: int) -> int:
    """Return the first offset from `begin` on that is not among `offsets`."""
    end = begin
    for offset in sorted(offsets):
        if offset == end:
            end += 1
        elif offset > end:
            break
    return end


def _check_times(half: HalfMessage, count_max: int) -> int | None:
    """Return how many checks the message has had with this one; None if it had too many."""
    if half.check_times is None:
        return 1
    try:
        times = parse_integer(half.check_times)
    except ValueError:
        times = -1
    return None if times >= count_max else times + 1


def _long(text: str) -> int:
    """Read a number as 4.9.3 does: -1 if it is none."""
    try:
        return parse_integer(text, minimum=LONG_MIN, maximum=LONG_MAX)
    except ValueError:
        return -1
