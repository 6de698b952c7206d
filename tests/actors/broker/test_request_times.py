"""What is counted as the time of a put and of a get."""

from itertools import pairwise

import pytest

from wakelog.actors.broker.request_times import RequestTimes
from wakelog.broker.store_stats import PUT_TIME_BOUNDS_MS
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import make_request

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


def pull(times: RequestTimes, clock: Clock, seconds: float) -> None:
    began_seconds = clock()
    clock.passes(seconds)
    times.processed(PULL, began_seconds)


def seen(times: RequestTimes) -> tuple[tuple[int, float], tuple[int, float]]:
    """Return count and sum of puts, then of gets."""
    found = times.statistics()
    put, get = (
        (sum(found[name]["counts"]), round(found[name]["sum_seconds"], 9))
        for name in ("put_seconds", "get_seconds")
    )
    return put, get


def test_a_send_is_no_get(times: RequestTimes, clock: Clock) -> None:
    times.processed(SEND, clock())
    times.put(2.5)
    assert seen(times) == ((1, 2.5), (0, 0))


def test_each_pull_is_a_get(times: RequestTimes, clock: Clock) -> None:
    pull(times, clock, 1.0)
    pull(times, clock, 2.0)
    assert seen(times) == ((0, 0), (2, 3.0))


def test_pulls_that_are_woken_share_the_time(times: RequestTimes, clock: Clock) -> None:
    began_seconds = clock()
    clock.passes(1.0)
    times.woken(began_seconds, 4)
    assert seen(times) == ((0, 0), (4, 1.0))


def test_the_longest_of_each_is_kept(times: RequestTimes, clock: Clock) -> None:
    for seconds, longest in ((2.0, 2.0), (1.0, 2.0), (2.0, 2.0), (3.0, 3.0)):
        pull(times, clock, seconds)
        assert times.get_seconds_max == longest
        times.put(seconds)
        assert times.put_seconds_max == longest


def test_puts_are_counted_from_each_bound_on(times: RequestTimes) -> None:
    bounds_ms = [0, *PUT_TIME_BOUNDS_MS]
    for place, (low_ms, high_ms) in enumerate(pairwise([*bounds_ms, bounds_ms[-1] + 1_000])):
        times.put((low_ms + high_ms) / 2_000)
        assert times.put_times[place] == 1 and sum(times.put_times) == place + 1
