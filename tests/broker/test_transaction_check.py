"""The rules of the check of half messages, with queues that are lists."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import pytest

from wakelog.broker import transaction_check
from wakelog.broker.transaction_check import (
    DECISIONS_MAX,
    PASSED_MAX,
    ROUND_MS_MAX,
    Action,
    CheckBatch,
    CheckRequest,
    HalfMessage,
    OpMessage,
    Page,
    check_half_messages,
    find_copies,
    half_message,
    op_message,
)
from wakelog.protocol.record import MessageRecord, decode_record, encode_record

START_MS = 1_000_000
OLD_MS = START_MS - 60_000
PAGE = 32

Message = TypeVar("Message", HalfMessage, OpMessage)


def half(offset: int, born_ms: int = OLD_MS, **changes: object) -> HalfMessage:
    made = HalfMessage(offset, offset * 100, 100, born_ms, min(born_ms, START_MS - 1))
    return msgspec.structs.replace(made, **changes)


def op(offset: int, half_offset: int | None, born_ms: int = OLD_MS) -> OpMessage:
    return OpMessage(offset, half_offset, born_ms)


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
    halves: Sequence[HalfMessage], ops: Sequence[OpMessage] = (), **changes: int
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
    copies = find_copies(request, read)
    return check_half_messages(request, read, Queue(ops).read, copies)


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
    ops = [op(i, 1_000 + i) for i in range(100)] + [op(100, 0)]
    batch = check([half(0)], ops)
    assert batch == CheckBatch((), 1, 0, False)  # the other 100 are of later half messages


def test_op_messages_that_go_on_coming_end_no_message() -> None:
    """As in 4.9.3: they were born so long after the round began that none is for this one."""
    batch = check([half(0)], [op(0, 77, START_MS + 6_001)], now_ms=START_MS + 7_000)
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
    back = half(9, immunity_seconds="600", prepared_queue_offset="9")
    batch = check([msgspec.structs.replace(back, queue_offset=9)], [op(0, 9)])
    assert batch == CheckBatch((), 10, 1, False)
    later = half(3, immunity_seconds="600", prepared_queue_offset="5")
    batch = check([later], [op(0, 5)])
    assert batch == CheckBatch((), 4, 1, False)
    batch = check([later], [op(0, 6)])
    assert actions(batch) == [(Action.RENEW, 3, 1)]


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


# Records.
def record(body: bytes = b"", properties: bytes = b"") -> MessageRecord:
    return decode_record(
        encode_record(
            queue_id=0,
            flag=0,
            queue_offset=7,
            physical_offset=900,
            sys_flag=0,
            born_timestamp_ms=5,
            born_host=("127.0.0.1", 1),
            store_timestamp_ms=6,
            store_host=("127.0.0.1", 2),
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=body,
            topic="T",
            properties=properties,
        )
    )


def test_what_is_read_of_a_half_message() -> None:
    properties = (
        b"TRANSACTION_CHECK_TIMES\x013\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x0160"
        b"\x02TRAN_PREPARED_QUEUE_OFFSET\x014"
    )
    one = record(properties=properties)
    assert half_message(one) == HalfMessage(7, 900, one.size_bytes, 5, 6, "3", "60", "4")
    assert half_message(record()).check_times is None


@pytest.mark.parametrize(
    ("body", "tags", "half_offset"),
    [(b"12", b"d", 12), (b"12", b"e", None), (b"x", b"d", -1), (b"\xff", b"d", -1)],
)
def test_what_is_read_of_an_op_message(body: bytes, tags: bytes, half_offset: int | None) -> None:
    one = record(body, b"TAGS\x01" + tags)
    assert op_message(one) == OpMessage(7, half_offset, 5)


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


def test_copies_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_check, "COPIES_READ_MAX", 40)
    halves = [copy(0, "A", None), *(half(n) for n in range(1, 40)), copy(40, "A")]
    queue = Queue(halves)
    request = CheckRequest(
        half_offset=0,
        op_offset=0,
        started_ms=START_MS,
        now_ms=START_MS,
        timeout_ms=6_000,
        count_max=15,
        reserved_ms=1,
        copies_end=41,
    )
    assert find_copies(request, queue.read) == {}
    monkeypatch.undo()
    assert find_copies(request, queue.read) == {("A", OLD_MS): 40}


def test_copies_of_a_queue_that_ends_early_are_what_is_there() -> None:
    assert check([copy(0, "A", None), copy(1, "A")], copies_end=1_000).half_offset == 2
