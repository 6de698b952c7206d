"""Responses that wait for one watermark or for two, in order."""

import pytest

from wakelog.broker.decision import AwaitFlush
from wakelog.broker.offset_waiters import OffsetWaiters, Waiter
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer


class Given(list[int]):
    """The codes of the responses that left, in order."""

    def waiter(self, outstanding_count: int = 1) -> Waiter:
        response = answer(RemotingCommand(code=10), ResponseCode.SUCCESS)
        return Waiter(AwaitFlush(response, 0, 0), self._add, outstanding_count)

    def _add(self, response: RemotingCommand | None) -> None:
        assert response is not None
        self.append(response.code)


def test_what_is_reached_leaves_in_order_and_once() -> None:
    given, waiters = Given(), OffsetWaiters(50, AwaitFlush.timed_out)
    assert waiters.add(10, 1_010, given.waiter()) and not waiters.add(20, 1_020, given.waiter())
    waiters.reached(19)
    assert (given, len(waiters), waiters.next_deadline_ms) == ([0], 1, 1_020)
    waiters.reached(20)
    waiters.expire(5_000)
    assert (given, waiters.late_count, waiters.next_deadline_ms) == ([0, 0], 0, None)


def test_two_watermarks_are_waited_for() -> None:
    given = Given()
    first, second = (
        OffsetWaiters(50, late) for late in (AwaitFlush.timed_out, AwaitFlush.timed_out)
    )
    waiter = given.waiter(2)
    first.add(10, 1_010, waiter)
    second.add(10, 1_030, waiter)
    first.reached(10)
    assert given == []
    second.expire(1_030)
    assert given == [ResponseCode.FLUSH_DISK_TIMEOUT]


def test_what_came_late_goes_before_what_was_put_after_it() -> None:
    """A response whose new topic was saved first would else leave with those behind it."""
    given, waiters = Given(), OffsetWaiters(50, AwaitFlush.timed_out)
    assert waiters.add(30, 1_030, given.waiter())
    assert waiters.add(10, 1_010, given.waiter())
    assert not waiters.add(20, 1_020, given.waiter())
    assert waiters.next_deadline_ms == 1_010
    waiters.expire(1_010)
    assert given == [ResponseCode.FLUSH_DISK_TIMEOUT] and waiters.next_deadline_ms == 1_020
    waiters.reached(20)
    assert given == [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SUCCESS]
    assert (len(waiters), waiters.next_deadline_ms) == (1, 1_030)


def test_what_came_late_keeps_no_failure_from_what_came_before_it() -> None:
    """A response whose new topic was saved first waits for an earlier offset than those before."""
    given, waiters = Given(), OffsetWaiters(50, AwaitFlush.timed_out)
    for offset in (10, 30, 20):
        waiters.add(offset, 1_010, given.waiter())
    waiters.fail_above(20, "EIO")
    assert (given, len(waiters)) == ([ResponseCode.SYSTEM_ERROR], 2)
    waiters.reached(20)
    assert given == [ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS, ResponseCode.SUCCESS]


def test_a_failure_is_said_once() -> None:
    given = Given()
    first, second = (OffsetWaiters(50, AwaitFlush.timed_out) for _ in range(2))
    waiter = given.waiter(2)
    first.add(10, 1_010, waiter)
    second.add(10, 1_010, waiter)
    first.fail_above(9, "EIO")
    second.fail_all("EIO")
    assert given == [ResponseCode.SYSTEM_ERROR]
    assert not first and not second


@pytest.mark.parametrize(
    ("deadline_ms", "leaves"),
    [(999, True), (1_000, True), (1_001, False), (1_050, False), (1_051, True)],
)
def test_what_is_due_leaves_and_so_does_what_a_clock_set_back_would_keep(
    deadline_ms: int, *, leaves: bool
) -> None:
    given, waiters = Given(), OffsetWaiters(50, AwaitFlush.timed_out)
    waiters.add(10, deadline_ms, given.waiter())
    waiters.expire(1_000)
    assert given == ([ResponseCode.FLUSH_DISK_TIMEOUT] if leaves else [])
    assert (len(waiters), waiters.late_count) == (not leaves, leaves)


@pytest.mark.parametrize(("offset", "failed"), [(9, 1), (10, 0), (11, 0)])
def test_what_waits_for_more_fails(offset: int, failed: int) -> None:
    given, waiters = Given(), OffsetWaiters(50, AwaitFlush.timed_out)
    waiters.add(10, 1_010, given.waiter())
    waiters.fail_above(offset, "EIO")
    assert (len(given), len(waiters)) == (failed, 1 - failed)


@pytest.mark.parametrize(("reached", "left"), [(9, 0), (10, 1), (11, 1)])
def test_what_is_reached_leaves(reached: int, left: int) -> None:
    given, waiters = Given(), OffsetWaiters(50, AwaitFlush.timed_out)
    waiters.add(10, 1_010, given.waiter())
    waiters.reached(reached)
    assert (len(given), len(waiters)) == (left, 1 - left)


def test_all_are_refused_and_what_has_left_is_not() -> None:
    given, waiters = Given(), OffsetWaiters(50, AwaitFlush.timed_out)
    gone, both = given.waiter(), given.waiter(2)
    for waiter in (gone, both, given.waiter()):
        waiters.add(10, 1_010, waiter)
    gone.end_one()
    both.end_one()
    waiters.refuse_all("no master")
    assert len(given) == 3 and given[0] == ResponseCode.SUCCESS
    assert ResponseCode.SUCCESS not in given[1:] and not waiters
    both.fail("EIO")
    assert len(given) == 3
