"""What is counted as the time of a put and of a get."""

from itertools import pairwise

import pytest

from wakelog.actors.broker.request_times import RequestTimes
from wakelog.broker.store_stats import PUT_TIME_BOUNDS_MS
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand, make_request

SEND = make_request(RequestCode.SEND_MESSAGE_V2, {}, b"", opaque=1)
PULL = make_request(RequestCode.PULL_MESSAGE, {}, b"", opaque=2)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def times(clock: Clock) -> RequestTimes:
    return RequestTimes(clock)


def run(times: RequestTimes, clock: Clock, request: RemotingCommand, seconds: float) -> None:
    began = times.began()
    clock.passes(seconds)
    times.processed(request, began)


def seen(times: RequestTimes) -> tuple[tuple[int, float], tuple[int, float]]:
    """Return count and sum of puts, then of gets."""
    found = times.statistics()
    put, get = (
        (sum(found[name]["counts"]), round(found[name]["sum_seconds"], 9))
        for name in ("put_seconds", "get_seconds")
    )
    return put, get


def test_the_puts_of_a_turn_share_its_time_up_to_the_write(
    times: RequestTimes, clock: Clock
) -> None:
    run(times, clock, SEND, 1.0)
    run(times, clock, SEND, 1.0)
    clock.passes(0.5)
    times.end_turn(has_put=True)
    assert seen(times) == ((1, 2.5), (0, 0))


def test_a_turn_begins_with_its_own_first_request(times: RequestTimes, clock: Clock) -> None:
    run(times, clock, SEND, 1.0)
    times.end_turn(has_put=False)
    clock.passes(60)
    run(times, clock, SEND, 2.0)
    times.end_turn(has_put=True)
    assert seen(times) == ((1, 2.0), (0, 0))


def test_what_is_put_without_a_request_is_no_put_of_a_client(times: RequestTimes) -> None:
    times.end_turn(has_put=True)
    assert seen(times) == ((0, 0), (0, 0))


def test_each_pull_is_a_get(times: RequestTimes, clock: Clock) -> None:
    run(times, clock, PULL, 1.0)
    run(times, clock, PULL, 2.0)
    times.end_turn(has_put=False)
    assert seen(times) == ((0, 0), (2, 3.0))


def test_pulls_that_are_woken_share_the_time(times: RequestTimes, clock: Clock) -> None:
    began = times.began()
    clock.passes(1.0)
    times.woken(began, 4)
    assert seen(times) == ((0, 0), (4, 1.0))


def test_the_longest_of_each_is_kept(times: RequestTimes, clock: Clock) -> None:
    for seconds, longest in ((2.0, 2.0), (1.0, 2.0), (2.0, 2.0), (3.0, 3.0)):
        run(times, clock, PULL, seconds)
        assert times.get_seconds_max == longest
        times.end_turn(has_put=False)
        run(times, clock, SEND, seconds)
        times.end_turn(has_put=True)
        assert times.put_seconds_max == longest


def test_puts_are_counted_from_each_bound_on(times: RequestTimes, clock: Clock) -> None:
    bounds_ms = [0, *PUT_TIME_BOUNDS_MS]
    for place, (low_ms, high_ms) in enumerate(pairwise([*bounds_ms, bounds_ms[-1] + 1_000])):
        run(times, clock, SEND, (low_ms + high_ms) / 2_000)
        times.end_turn(has_put=True)
        assert times.put_times[place] == 1 and sum(times.put_times) == place + 1
