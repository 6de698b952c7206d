"""Which calls end at which time, and when the one timer has to go off."""

from concurrent.futures import Future

import pytest

from wakelog.network.deadlines import NEVER, SWEEP_SECONDS_MIN, Deadlines
from wakelog.network.errors import CallTimeout
from wakelog.protocol.command import RemotingCommand


def waiter() -> Future[RemotingCommand]:
    return Future()


def test_calls_whose_time_is_over_end_and_the_others_say_when_to_come_again() -> None:
    deadlines = Deadlines()
    early, late, ended = waiter(), waiter(), waiter()
    for call, seconds in ((late, 20.0), (early, 13.0), (ended, 12.0)):
        deadlines.add(call, seconds, "a:1", 3_000)
    deadlines.remove(ended)
    assert deadlines.expire(12.9) == 13.0
    assert not early.done()
    assert deadlines.expire(13.0) == 20.0
    with pytest.raises(CallTimeout, match="a:1: no answer within 3000 ms"):
        early.result(timeout=0)
    assert not late.done() and not ended.done()
    deadlines.remove(early)
    assert len(deadlines) == 1


def test_the_table_is_not_read_for_each_of_many_calls_that_end_one_by_one() -> None:
    deadlines = Deadlines()
    for number in range(100):
        deadlines.add(waiter(), 10.0 + number / 1_000_000, "a:1", 1)
    assert deadlines.expire(10.0) == 10.0 + SWEEP_SECONDS_MIN


def test_without_calls_no_timer_is_left() -> None:
    deadlines = Deadlines()
    call = waiter()
    deadlines.add(call, 13.0, "a:1", 3_000)
    deadlines.remove(call)
    assert deadlines.expire(13.0) == NEVER


def test_a_call_that_was_answered_keeps_its_answer() -> None:
    deadlines = Deadlines()
    call = waiter()
    deadlines.add(call, 13.0, "a:1", 3_000)
    call.set_result(RemotingCommand(0))
    deadlines.expire(14.0)
    assert call.result(timeout=0).code == 0
