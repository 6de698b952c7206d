"""The clock of the row `catch-up`: from the first byte to the last queue."""

from itertools import count

import pytest

from benchmarks.catch_up import Reach, read_reach, timed


def test_the_time_begins_with_the_first_byte_and_ends_with_the_queues() -> None:
    seen = iter([None, Reach(0, 0), Reach(10, 0), Reach(50, 20), Reach(100, 90), Reach(100, 100)])
    moments = count(0.0, 1.0)
    copied, queued = timed(
        lambda: next(seen), 100, clock_seconds=lambda: next(moments), pause=lambda _: None
    )
    assert 0 < copied < queued


def test_a_slave_that_never_has_all_of_it_is_a_failure() -> None:
    moments = count(0.0, 1.0)
    with pytest.raises(RuntimeError, match="not caught up"):
        timed(lambda: Reach(99, 99), 100, clock_seconds=lambda: next(moments), pause=lambda _: None)


def test_what_a_broker_says_of_its_log() -> None:
    values = b'{"table":{"commitLogMaxOffset":"90","dispatchBehindBytes":"30"}}'
    assert read_reach(values) == Reach(90, 60)
    assert read_reach(b"") is None and read_reach(b'{"table":{}}') is None
