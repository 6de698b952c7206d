"""Pieces of statistics, and the rests of the thread that makes them."""

from wakelog.telemetry.pieces import (
    REST_SECONDS,
    RESTS_SECONDS_MAX,
    WORK_SECONDS,
    Pace,
    encode_pieces,
)


class Time:
    """A clock, and what sleeps by it."""

    def __init__(self) -> None:
        self.now_seconds = 0.0
        self.rests: list[float] = []

    def clock(self) -> float:
        return self.now_seconds

    def rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now_seconds += seconds


def test_a_thread_rests_after_each_share_of_work() -> None:
    time = Time()
    pace = Pace(time.clock, time.rest)
    pace.keep()
    assert time.rests == []
    for _ in range(3):
        for _ in range(2):
            time.now_seconds += 0.6 * WORK_SECONDS
            pace.keep()
    assert time.rests == [REST_SECONDS] * 3


def test_rests_that_last_long_end() -> None:
    time = Time()

    def rest_long(seconds: float) -> None:
        time.rest(seconds)
        time.now_seconds += 0.4 * RESTS_SECONDS_MAX

    pace = Pace(time.clock, rest_long)
    for _ in range(9):
        time.now_seconds += WORK_SECONDS
        pace.keep()
    assert time.rests == [REST_SECONDS] * 3


def test_a_thread_may_rest_after_each_piece() -> None:
    time = Time()

    def pieces() -> list[dict[str, int]]:
        time.now_seconds += WORK_SECONDS
        return [{"a": 1}]

    assert encode_pieces(pieces(), Pace(time.clock, time.rest)) == [b"\x81\xa1a\x01"]
    pace = Pace(time.clock, time.rest)
    time.now_seconds += WORK_SECONDS
    encode_pieces([{"a": 1}, {"b": 2}], pace)
    assert time.rests == [REST_SECONDS]
