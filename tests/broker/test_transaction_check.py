"""The rules of the check of half messages, with queues that are lists."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import pytest

from wakelog.broker import half_copies
from wakelog.broker.half_copies import EarlierCopies, RenewedCopies
from wakelog.broker.half_queue import HalfMessage, OpMessage, Page
from wakelog.broker.transaction_check import (
    DECISIONS_MAX,
    PASSED_MAX,
    ROUND_MS_MAX,
    Action,
    CheckBatch,
    CheckRequest,
    Decision,
    check_half_messages,
)

START_MS = 1_000_000
OLD_MS = START_MS - 60_000
PAGE = 32

Message = TypeVar("Message", HalfMessage, OpMessage)


def half(offset: int, born_ms: int = OLD_MS, **changes: object) -> HalfMessage:
    made = HalfMessage(offset, offset * 100, 100, born_ms, min(born_ms, START_MS - 1))
    return msgspec.structs.replace(made, **changes)


def op(offset: int, half_offset: int | None) -> OpMessage:
    return OpMessage(offset, half_offset)


class Queue:
    """Messages of one queue, and how often it was read."""

    def __init__(self, messages: Sequence[HalfMessage] | Sequence[OpMessage]) -> None:
        self.messages = messages
        self.reads: list[int] = []

    def read(self, offset: int) -> Page[Any]:
        self.reads.append(offset)
        begin = self.messages[0].queue_offset if self.messages else 0
        end = self.messages[-1].queue_offset + 1 if self.messages else 0
        if self.messages and offset < begin:
            return Page([], begin)
        found = [one for one in self.messages if one.queue_offset >= offset][:PAGE]
        return Page(found, found[-1].queue_offset + 1 if found else min(offset, end) or offset)


def check(
    halves: Sequence[HalfMessage],
    ops: Sequence[OpMessage] = (),
    renewed: RenewedCopies | None = None,
    copies: EarlierCopies | None = None,
    **changes: int,
) -> CheckBatch:
    values = dict(
        half_offset=halves[0].queue_offset if halves else 0,
        op_offset=ops[0].queue_offset if ops else 0,
        started_ms=START_MS,
        now_ms=START_MS,
        timeout_ms=6_000,
        count_max=15,
        reserved_ms=72 * 3_600_000,
    )
    request = CheckRequest(**(values | changes))
    read = Queue(halves).read
    known = copies or EarlierCopies(), renewed or RenewedCopies()
    return check_half_messages(request, read, Queue(ops).read, *known)


def actions(batch: CheckBatch) -> list[tuple[Action, int, int | None]]:
    return [(one.action, one.queue_offset, one.check_times) for one in batch.decisions]


def test_nothing_there_changes_nothing() -> None:
    assert check([]) == CheckBatch((), 0, 0, False)


def test_ended_messages_are_passed_with_their_op_messages() -> None:
    batch = check([half(0), half(1), half(2)], [op(0, 1), op(1, 0), op(2, 2)])
    assert batch == CheckBatch((), 3, 3, False)


def test_an_open_message_is_checked_once_it_is_old_enough() -> None:
    batch = check([half(0), half(1), half(2)], [op(0, 0), op(1, 2)])
    assert actions(batch) == [(Action.CHECK, 1, 1)]
    assert (batch.half_offset, batch.op_offset) == (3, 2)


@pytest.mark.parametrize(("age_ms", "is_checked"), [(5_999, False), (6_000, False), (6_001, True)])
def test_a_young_message_ends_the_round(age_ms: int, is_checked: bool) -> None:
    batch = check([half(0, START_MS - age_ms), half(1)])
    assert bool(batch.decisions) == is_checked
    assert batch.half_offset == (2 if is_checked else 0)


def test_a_message_born_by_a_clock_ahead_is_checked() -> None:
    assert actions(check([half(0, START_MS + 50)])) == [(Action.CHECK, 0, 1)]


def test_what_was_put_back_in_this_round_ends_it() -> None:
    batch = check([half(0), half(1, store_timestamp_ms=START_MS), half(2)])
    assert actions(batch) == [(Action.CHECK, 0, 1)]
    assert batch.half_offset == 1


def test_checks_are_counted_up_to_the_last_one() -> None:
    batch = check([half(0, check_times="14"), half(1, check_times="15"), half(2, check_times="x")])
    assert actions(batch) == [
        (Action.CHECK, 0, 15),
        (Action.DISCARD, 1, None),
        (Action.CHECK, 2, 0),
    ]


def test_a_message_as_old_as_the_oldest_file_is_given_up() -> None:
    batch = check([half(0, START_MS - 3_601)], reserved_ms=3_600)
    assert actions(batch) == [(Action.DISCARD, 0, 1)]
    assert batch.half_offset == 1


def test_op_messages_are_read_until_the_message_is_found_ended() -> None:
    """4.9.3 reads on only up to those born so long after the round began, and asks in vain."""
    ops = [op(i, 1_000 + i) for i in range(100)] + [op(100, 0)]
    batch = check([half(0)], ops)
    assert batch == CheckBatch((), 1, 0, False)  # the other 100 are of later half messages


def test_op_messages_of_others_end_no_message() -> None:
    batch = check([half(0)], [op(0, 77)])
    assert actions(batch) == [(Action.CHECK, 0, 1)]


def test_op_messages_of_what_was_passed_before_are_done() -> None:
    batch = check([half(10)], [op(3, 8), op(4, 9), op(5, 10), op(6, None)])
    assert batch == CheckBatch((), 11, 6, False)  # what ends nothing is never done, as in 4.9.3


def test_op_messages_before_the_begin_of_their_queue_are_gone() -> None:
    batch = check([half(0)], [op(50, 0)], op_offset=20)
    assert batch == CheckBatch((), 1, 51, False)


def test_half_messages_before_the_begin_of_their_queue_are_gone() -> None:
    batch = check([half(40), half(41, START_MS - 10)], half_offset=3)
    assert actions(batch) == [(Action.CHECK, 40, 1)]
    assert batch.half_offset == 41


def test_a_gap_in_the_queue_is_passed() -> None:
    batch = check([half(0), half(5)])
    assert actions(batch) == [(Action.CHECK, 0, 1), (Action.CHECK, 5, 1)]
    assert batch.half_offset == 6


# CHECK_IMMUNITY_TIME_IN_SECONDS.
def test_a_message_with_a_time_of_its_own_is_put_back_and_counted() -> None:
    batch = check([half(0, immunity_seconds="600"), half(1)])
    assert actions(batch) == [(Action.RENEW, 0, 1), (Action.CHECK, 1, 1)]


def test_a_message_is_checked_after_its_own_time() -> None:
    batch = check([half(0, immunity_seconds="59", check_times="3")])
    assert actions(batch) == [(Action.CHECK, 0, 4)]


@pytest.mark.parametrize("text", ["-1", "soon"])
def test_a_time_that_is_none_is_the_brokers(text: str) -> None:
    assert actions(check([half(0, immunity_seconds=text)])) == [(Action.CHECK, 0, 1)]
    assert actions(check([half(0, START_MS - 50, immunity_seconds=text)])) == [(Action.RENEW, 0, 1)]


def test_what_was_put_back_is_ended_by_its_first_offset() -> None:
    later = half(30, immunity_seconds="600", prepared_queue_offset="5")
    assert check([later], [op(7, 5)]) == CheckBatch((), 31, 7, False)
    assert actions(check([later], [op(7, 6)])) == [(Action.RENEW, 30, 1)]


@pytest.mark.parametrize(
    "changes",
    [
        {"immunity_seconds": "600"},  # not yet to be checked
        {"immunity_seconds": "59"},  # to be checked
        {"check_times": "15"},  # to be given up
        {},
    ],
)
def test_the_op_message_of_the_first_ends_a_copy_however_it_is_judged(
    changes: dict[str, str],
) -> None:
    """It is found behind op messages of others, too, and stays until the copy is passed."""
    ops = [op(i, 1_000 + i) for i in range(100)] + [op(100, 5)]
    later = half(30, OLD_MS, prepared_queue_offset="5", **changes)
    assert check([later], ops) == CheckBatch((), 31, 0, False)
    batch = check([later, half(31, START_MS - 50)], [op(8, 5), op(9, 4)])
    assert batch == CheckBatch((), 31, 8, False)


def test_op_messages_without_a_number_end_no_copy_that_names_none() -> None:
    batch = check([half(3, prepared_queue_offset="?")], [op(0, -1)])
    assert actions(batch) == [(Action.CHECK, 3, 1)]


class Life:
    """Rounds of the check over queues that grow: what is decided is put, as the Broker does."""

    def __init__(self, first_offset: int) -> None:
        self.halves: list[HalfMessage] = []
        self.ops: list[OpMessage] = []
        self.half_offset = self.end = first_offset
        self.op_offset = self.copies_end = 0
        self.now_ms = START_MS
        self.renewed = RenewedCopies()
        self.copies = EarlierCopies()
        self.asked: list[int] = []

    def put(self, **changes: Any) -> int:
        values = {"born_timestamp_ms": self.now_ms, "store_timestamp_ms": self.now_ms}
        self.halves.append(msgspec.structs.replace(half(self.end), **values | changes))
        self.end += 1
        return self.end - 1

    def end_half(self, offset: int) -> None:
        self.ops.append(op(len(self.ops), offset))

    def round(self, *, is_saved: bool = True) -> None:
        self.now_ms += 60_000
        half_offset, op_offset, has_more = self.half_offset, self.op_offset, True
        while has_more:
            batch = check(
                self.halves,
                self.ops,
                self.renewed,
                self.copies,
                half_offset=half_offset,
                op_offset=op_offset,
                started_ms=self.now_ms,
                now_ms=self.now_ms,
                copies_end=self.copies_end,
            )
            for decision in batch.decisions:
                self.carry_out(decision)
            half_offset, op_offset, has_more = batch.half_offset, batch.op_offset, batch.has_more
        if is_saved:
            self.half_offset, self.op_offset = half_offset, op_offset

    def carry_out(self, decision: Decision) -> None:
        old = next(one for one in self.halves if one.queue_offset == decision.queue_offset)
        first = old.prepared_queue_offset
        if decision.action is Action.RENEW:
            first = first or str(old.queue_offset)
        else:
            assert decision.action is Action.CHECK
            self.asked.append(self.end)
        self.put(
            born_timestamp_ms=old.born_timestamp_ms,
            check_times=str(decision.check_times),
            immunity_seconds=old.immunity_seconds,
            prepared_queue_offset=first,
            unique_key=old.unique_key,
        )

    def restart(self) -> None:
        self.copies_end = self.end
        self.renewed = RenewedCopies()
        self.copies = EarlierCopies()


@pytest.mark.parametrize("first_offset", [0, 70])
@pytest.mark.parametrize("renewal_count", [1, 2, 5])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_producer_that_ends_a_renewed_message_is_not_asked(
    first_offset: int, renewal_count: int, is_restarted: bool
) -> None:
    """Also if its op message is read before the copy: there are others that stay open."""
    life = Life(first_offset)
    for number in range(DECISIONS_MAX + 1):
        life.put(unique_key=f"open {number}")
    firsts = [life.put(immunity_seconds="3600", unique_key=str(n)) for n in range(70)]
    for _ in range(renewal_count):
        life.round()
    for first in firsts:
        life.end_half(first)
    if is_restarted:
        life.restart()
    for _ in range(3):
        life.round()
    copies = [one for one in life.halves if one.immunity_seconds is not None]
    assert len(copies) == 70 * (renewal_count + 1)
    assert not {one.queue_offset for one in copies} & set(life.asked)
    assert life.op_offset == 70


def test_op_messages_of_renewed_messages_stay_while_offsets_are_not_saved() -> None:
    life = Life(0)
    first = life.put(immunity_seconds="3600", unique_key="A")
    other = life.put(unique_key="B")
    life.round()  # puts A back, and asks about B
    life.round(is_saved=False)  # both are put back, and the Broker is killed
    life.end_half(first)
    life.end_half(other)
    life.restart()
    for _ in range(3):
        life.round()
    assert life.asked and all(life.halves[offset].unique_key == "B" for offset in life.asked)


def test_a_renewed_message_that_stays_open_is_asked_about_after_its_time() -> None:
    life = Life(3)
    life.put(immunity_seconds="150")
    for _ in range(3):
        life.round()
    assert life.asked == [6]
    life.end_half(6)
    for _ in range(3):
        life.round()
    assert (life.asked, life.half_offset, life.op_offset) == ([6], 7, 1)


def test_what_names_no_first_message_waits() -> None:
    batch = check([half(0, immunity_seconds="600", prepared_queue_offset="?"), half(1)])
    assert batch == CheckBatch((), 0, 0, False)


# Limits.
def test_a_batch_has_so_many_decisions_at_most() -> None:
    halves = [half(i) for i in range(DECISIONS_MAX + 1)]
    batch = check(halves)
    assert batch.has_more and len(batch.decisions) == batch.half_offset == DECISIONS_MAX
    rest = check(halves[DECISIONS_MAX:])
    assert not rest.has_more and len(rest.decisions) == 1


def test_a_batch_passes_so_many_messages_at_most() -> None:
    count = PASSED_MAX + 10
    batch = check([half(i) for i in range(count)], [op(i, i) for i in range(count)])
    assert batch == CheckBatch((), PASSED_MAX, PASSED_MAX, True)


def test_a_round_ends_after_a_minute() -> None:
    batch = check([half(0)], now_ms=START_MS + ROUND_MS_MAX + 1)
    assert batch == CheckBatch((), 0, 0, False)
    assert check([half(0)], now_ms=START_MS + ROUND_MS_MAX).half_offset == 1


# Copies.
def copy(offset: int, key: str, times: str | None = "1", born_ms: int = OLD_MS) -> HalfMessage:
    return half(offset, born_ms, unique_key=key, check_times=times)


def test_what_was_put_back_before_the_start_is_not_checked_twice() -> None:
    """The offsets are those from before the check that put them back."""
    halves = [copy(0, "A", None), copy(1, "B", None), copy(2, "A"), copy(3, "A", "2")]
    batch = check(halves, copies_end=4)
    assert actions(batch) == [(Action.CHECK, 1, 1), (Action.CHECK, 3, 3)]
    assert batch.half_offset == 4


def test_a_copy_that_was_ended_ends_the_message_before_it() -> None:
    batch = check([copy(0, "A", None), copy(1, "A")], [op(0, 1)], copies_end=2)
    assert batch == CheckBatch((), 2, 1, False)


def test_only_what_was_there_at_the_start_may_be_a_copy() -> None:
    batch = check([copy(0, "A", None), copy(1, "A")], copies_end=1)
    assert [one.queue_offset for one in batch.decisions] == [0, 1]


@pytest.mark.parametrize(
    "other", [copy(1, "A", None), copy(1, "A", born_ms=OLD_MS + 1), copy(1, "B"), copy(1, "")]
)
def test_another_message_is_no_copy(other: HalfMessage) -> None:
    first = copy(0, "A" if other.unique_key else "", None)
    assert len(check([first, other], copies_end=2).decisions) == 2


def test_nothing_is_decided_before_its_copies_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far behind it the copy is, and however small the window is."""
    monkeypatch.setattr(half_copies, "COPIES_READ_MAX", 100)
    monkeypatch.setattr(half_copies, "COPIES_WINDOW", 30)
    life = Life(5)
    for number in range(90):
        life.put(unique_key=f"twice {number}")
    life.round(is_saved=False)  # they are put back, and the Broker is killed
    for number in range(300):
        life.put(unique_key=f"later {number}")
    life.restart()
    asked = set(life.asked)
    life.round()
    keys = [life.halves[offset - 5].unique_key for offset in life.asked if offset not in asked]
    assert len(keys) == len(set(keys)) == 390


def test_a_round_ends_after_a_minute_also_while_copies_are_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(half_copies, "COPIES_READ_MAX", 1)
    halves = [copy(n, str(n), None) for n in range(100)]
    late, copies = START_MS + ROUND_MS_MAX + 1, EarlierCopies()
    assert check(halves, copies=copies, copies_end=100).has_more
    assert not check(halves, copies=copies, copies_end=100, now_ms=late).has_more


def test_copies_of_a_queue_that_ends_early_are_what_is_there() -> None:
    assert check([copy(0, "A", None), copy(1, "A")], copies_end=1_000).half_offset == 2


@pytest.mark.parametrize(
    ("age_ms", "changes", "action"),
    [
        (3_600_000, {}, Action.CHECK),
        (3_600_001, {}, Action.DISCARD),
        (6_000, {}, None),
        (6_001, {}, Action.CHECK),
        (0, {}, None),
        (-1, {}, Action.CHECK),
        (59_999, {"immunity_seconds": "60"}, Action.RENEW),
        (60_000, {"immunity_seconds": "60"}, None),
        (60_001, {"immunity_seconds": "60"}, Action.CHECK),
        (-1, {"immunity_seconds": "60"}, Action.RENEW),
        (59_999, {"immunity_seconds": "60", "prepared_queue_offset": "?"}, None),
        (60_001, {"immunity_seconds": "60", "prepared_queue_offset": "?"}, Action.CHECK),
        (6_001, {"immunity_seconds": "-1"}, Action.CHECK),
        (6_000, {"immunity_seconds": "-1"}, None),
        (5_999, {"immunity_seconds": "-1"}, Action.RENEW),
        (6_001, {"store_timestamp_ms": START_MS - 1}, Action.CHECK),
        (6_001, {"store_timestamp_ms": START_MS}, None),
        (3_600_001, {"store_timestamp_ms": START_MS}, Action.DISCARD),
    ],
)
def test_what_is_done_at_each_age(
    age_ms: int, changes: dict[str, object], action: Action | None
) -> None:
    batch = check([half(0, START_MS - age_ms, **changes)], reserved_ms=3_600_000)
    assert [one.action for one in batch.decisions] == ([] if action is None else [action])
    assert batch.half_offset == (action is not None) and not batch.has_more


@pytest.mark.parametrize(
    ("age_ms", "changes", "is_passed"),
    [
        (6_001, {}, True),
        (6_000, {}, True),
        (5_999, {}, False),
        (1, {}, False),
        (0, {}, False),
        (-1, {}, True),
        (3_600_001, {}, True),
        (0, {"immunity_seconds": "60"}, True),
        (60_000, {"immunity_seconds": "60"}, True),
        (59_999, {"immunity_seconds": "60", "prepared_queue_offset": "?"}, True),
        (6_001, {"store_timestamp_ms": START_MS}, False),
        (3_600_001, {"store_timestamp_ms": START_MS}, True),
        (0, {"check_times": "15"}, True),
    ],
)
def test_a_message_that_was_ended_is_passed_once_it_is_judged(
    age_ms: int, changes: dict[str, object], *, is_passed: bool
) -> None:
    ended = half(0, START_MS - age_ms, **changes)
    later = [op(offset, 1_000 + offset) for offset in range(PAGE)]  # 0 is not ended by these
    batch = check([ended, half(1)], [*later, op(PAGE, 0)], reserved_ms=3_600_000)
    assert actions(batch) == ([(Action.CHECK, 1, 1)] if is_passed else [])
    assert batch.half_offset == (2 if is_passed else 0)


@pytest.mark.parametrize(("age_ms", "action"), [(-1, [Action.RENEW]), (0, []), (1, [Action.CHECK])])
def test_a_message_without_a_time_to_wait_is_asked_about_at_once(
    age_ms: int, action: list[Action]
) -> None:
    batch = check([half(0, START_MS - age_ms, immunity_seconds="0")])
    assert [one.action for one in batch.decisions] == action


@pytest.mark.parametrize(("late_ms", "count"), [(0, 1), (ROUND_MS_MAX, 1), (ROUND_MS_MAX + 1, 0)])
def test_a_round_lasts_so_long(late_ms: int, count: int) -> None:
    batch = check([half(0)], now_ms=START_MS + late_ms)
    assert (len(batch.decisions), batch.half_offset) == (count, count)


def test_op_messages_that_are_gone_are_passed_although_the_round_ends_at_once() -> None:
    batch = check([half(0, START_MS - 10)], [op(50, 7)], op_offset=20)
    assert batch == CheckBatch((), 0, 50, False)
