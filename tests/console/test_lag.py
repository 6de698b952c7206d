"""How far behind a group is: against a simulated group, whose every message is known."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.console.cluster_reading import BrokerReading, ClusterReading, GroupReading
from wakelog.console.history import History
from wakelog.console.lag import (
    LATE_MS_MIN,
    MESSAGES_MIN,
    RECENT_MS,
    GroupLag,
    Trend,
    behind_of,
    falls_behind,
    is_late,
    lag_of,
    trend_of,
)
from wakelog.protocol.bodies import ConsumeStats, OffsetWrapper
from wakelog.protocol.body_codec import MessageQueue

QUEUE = MessageQueue("T", "a", 0)
SEQUEL = MessageQueue("U", "a", 0)
BEGIN_MS = 1_000_000_000
READING_MS = 10_000


def test_a_group_with_everything_has_nothing_to_catch_up() -> None:
    assert lag_of({QUEUE: OffsetWrapper(5, 5, 3)}, {}, None, 9) == GroupLag(0, left_ms=0.0)


def test_the_topic_with_the_most_lag_is_named() -> None:
    places = {QUEUE: OffsetWrapper(9, 5, 3), SEQUEL: OffsetWrapper(9, 1, 4)}
    assert lag_of(places, {}, None, 9) == GroupLag(12, "U", 6)


def test_a_shrinking_lag_ends_and_a_growing_one_has_a_beginning() -> None:
    places = {QUEUE: OffsetWrapper(105, 5, 3)}
    assert lag_of(places, {}, Trend(-10, 7, 0), 9).left_ms == 10_000
    grows = lag_of(places, {}, Trend(10, 7, 50), 9)
    assert (grows.left_ms, grows.is_growing, grows.since_ms, grows.grown) == (None, True, 7, 50)
    stays = lag_of(places, {}, Trend(0, 7, 0), 9)
    assert (stays.left_ms, stays.is_growing) == (None, False)


def test_what_waits_first_came_after_what_was_consumed_and_after_the_queue_was_empty() -> None:
    places = {QUEUE: OffsetWrapper(9, 5, 1_000), SEQUEL: OffsetWrapper(9, 5, 5_000)}
    assert behind_of(places, {}, 9_000) == 8_000
    assert behind_of(places, {QUEUE: 7_000}, 9_000) == 4_000
    assert behind_of({QUEUE: OffsetWrapper(9, 9, 1_000)}, {}, 9_000) is None
    assert behind_of({QUEUE: OffsetWrapper(9, 0, 0)}, {}, 9_000) is None


@pytest.mark.parametrize(
    ("lag", "late"),
    [
        (GroupLag(MESSAGES_MIN, "T", LATE_MS_MIN + 1), True),
        (GroupLag(MESSAGES_MIN, "T", LATE_MS_MIN), False),
        (GroupLag(MESSAGES_MIN - 1, "T", LATE_MS_MIN + 1), False),
        (GroupLag(MESSAGES_MIN, "T", None), False),
        (GroupLag(MESSAGES_MIN, "T", None, None, True, BEGIN_MS - LATE_MS_MIN - 1), True),
        (GroupLag(MESSAGES_MIN, "T", None, None, True, BEGIN_MS - LATE_MS_MIN), False),
    ],
)
def test_a_group_is_late_with_more_than_what_is_on_its_way(lag: GroupLag, late: bool) -> None:
    assert is_late(lag, BEGIN_MS) is late
    assert falls_behind(lag, BEGIN_MS) is (late and lag.is_growing)


@pytest.mark.parametrize("messages", [[], [5], [math.nan, 5, math.nan]])
def test_one_reading_is_no_trend(messages: Sequence[float]) -> None:
    assert trend_of([READING_MS * n for n in range(len(messages))], messages) is None


def test_a_reading_that_is_not_known_is_passed_over() -> None:
    times_ms = [0, 10_000, 20_000, 30_000]
    assert trend_of(times_ms, [10, math.nan, 30, 40]) == Trend(1, 0, 30)


def test_a_group_that_catches_up_after_a_burst_has_the_rate_of_now() -> None:
    lags = [0] * 20 + [9_000 - 300 * n for n in range(8)]
    found = trend_of([READING_MS * n for n in range(len(lags))], lags)
    assert found is not None and found.a_second == pytest.approx(-30)


class Phase(NamedTuple):
    """Some readings with constant rates, in messages a second."""

    readings: int
    arrives: int
    consumes: int


PHASES = st.lists(
    st.builds(Phase, st.integers(1, 60), st.integers(0, 500), st.integers(0, 500)),
    min_size=1,
    max_size=5,
)


class Simulated:
    """A queue and a group of it. Each message is stored at a known time; readings go by."""

    def __init__(self) -> None:
        self.now_ms = BEGIN_MS
        self.stored = self.consumed = 0
        self.times_ms: list[int] = []
        self.lags: list[int] = []
        self.ends: list[tuple[int, int]] = [(0, BEGIN_MS)]
        self.history = History()
        self.read()

    def run(self, phase: Phase) -> None:
        for _ in range(phase.readings):
            self.now_ms += READING_MS
            seconds = READING_MS // 1000
            self.stored += phase.arrives * seconds
            self.consumed = min(self.stored, self.consumed + phase.consumes * seconds)
            self.ends.append((self.stored, self.now_ms))
            self.read()

    def stored_ms(self, offset: int) -> float:
        """Return when the message at an offset was stored: between two readings evenly."""
        for (before, before_ms), (after, after_ms) in zip(self.ends, self.ends[1:], strict=False):
            if before <= offset < after:
                return before_ms + (after_ms - before_ms) * (offset - before) / (after - before)
        raise AssertionError("no such message")

    def read(self) -> None:
        self.times_ms.append(self.now_ms)
        self.lags.append(self.stored - self.consumed)
        last_ms = round(self.stored_ms(self.consumed - 1)) if self.consumed else 0
        place = OffsetWrapper(self.stored, self.consumed, last_ms)
        self.group = GroupReading(progress=ConsumeStats({QUEUE: place}))
        broker = BrokerReading("c", "a", 0, "a:1")
        self.history.add(ClusterReading(self.now_ms, brokers=[broker], groups={"g": self.group}))

    @property
    def lag(self) -> GroupLag:
        return self.history.lag("g", self.group)


@given(PHASES)
def test_a_simulated_group_is_read_as_it_is(phases: list[Phase]) -> None:
    group = Simulated()
    for phase in phases:
        group.run(phase)
    lag, waits = group.lag, group.stored - group.consumed
    assert lag.messages == waits
    if not waits:
        assert lag.left_ms == 0 and not lag.is_growing
        return
    assert lag.behind_ms is not None  # it was empty when it was read first
    first_ms = group.stored_ms(group.consumed)
    waited_ms = group.now_ms - first_ms
    assert lag.behind_ms >= waited_ms - READING_MS - 1
    if not group.consumed or first_ms - group.stored_ms(group.consumed - 1) <= READING_MS:
        assert lag.behind_ms <= waited_ms + READING_MS + 1
    hour = [x for x, y in zip(group.times_ms, group.lags, strict=True) if y == min(group.lags)]
    if lag.is_growing and len(group.times_ms) <= 361:  # all of it is in the hour
        assert (lag.since_ms, lag.grown) == (hour[-1], waits - min(group.lags))


@given(PHASES, st.integers(0, 500), st.integers(0, 500))
def test_a_rate_that_lasts_is_found_and_when_it_ends(
    phases: list[Phase], arrives: int, consumes: int
) -> None:
    group = Simulated()
    for phase in phases:
        group.run(phase)
    group.run(Phase(RECENT_MS // READING_MS + 1, arrives, consumes))
    lag, a_second = group.lag, consumes - arrives
    if lag.messages == 0 or min(group.lags[-32:]) == 0:
        return  # it was caught up meanwhile
    if a_second > 0:
        assert lag.left_ms == pytest.approx(lag.messages / a_second * 1000, rel=0.01)
        if lag.left_ms is not None and lag.left_ms < RECENT_MS:
            group.run(Phase(math.ceil(lag.left_ms / READING_MS), arrives, consumes))
            assert group.lag.messages == 0
    else:
        assert lag.left_ms is None and lag.is_growing is (a_second < 0)
