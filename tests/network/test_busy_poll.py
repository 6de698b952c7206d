"""When the loop stays awake after a turn, on a clock that moves with each poll."""

from collections.abc import Callable

import pytest

from wakelog.network.busy_poll import (
    LOST_SHARE_MAX,
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
    SPARE_SECONDS_MAX,
    VAIN_COUNT_MAX,
    BusyPoll,
    LostTime,
)

POLL_SECONDS = 100.0
POLL_STEP_SECONDS = 1.0
TURN_SECONDS = 5.0


class Loop:
    """Counts how often it polled its sockets instead of sleeping."""

    def __init__(self, poll_seconds: float) -> None:
        self.now_seconds = 0.0
        self.step_seconds, self.turn_seconds = POLL_STEP_SECONDS, TURN_SECONDS
        self._soon: list[Callable[[], None]] = []
        self._busy_poll = BusyPoll(
            poll_seconds,
            call_soon=self._soon.append,
            clock_seconds=lambda: self.now_seconds,
            cpu_seconds=lambda: self.now_seconds,
        )

    def turn_after(self, gap_seconds: float, *, answered: bool = True) -> int:
        """Have a turn so long after the last one; return the polls in between."""
        due = self.now_seconds + gap_seconds
        polls_count = 0
        while self._soon and self.now_seconds < due:
            self.now_seconds += self.step_seconds
            polls_count += 1
            self._soon.pop(0)()
            assert len(self._soon) <= 1
        began = self.now_seconds = max(self.now_seconds, due)
        self.now_seconds += self.turn_seconds
        self._busy_poll.turn_ended(began, self.now_seconds, answered=answered)
        return polls_count

    def stop(self) -> None:
        """Have what is polled for."""
        self._busy_poll.stop(self.now_seconds)


@pytest.mark.parametrize(
    ("gaps", "polls"),
    [
        pytest.param([10_000, 10_000, 10_000], [0, 0, 0], id="at long intervals"),
        pytest.param([10_000, 250, 80, 80, 80], [0, 0, 80, 80, 80], id="one by one"),
        pytest.param([10_000, 250, 200, 200, 300, 80], [0, 0, 100, 100, 100, 0], id="too slow"),
        pytest.param([10_000, 0, 0, 50, 10_000], [0, 0, 0, 50, 100], id="the last one"),
        pytest.param([10_000, 50, 10_000, 10_000], [0, 0, 100, 0], id="asleep again"),
    ],
)
def test_it_polls_while_requests_are_close(gaps: list[float], polls: list[int]) -> None:
    loop = Loop(POLL_SECONDS)
    assert [loop.turn_after(gap) for gap in gaps] == polls


def test_a_turn_without_responses_is_not_followed_by_a_poll() -> None:
    loop = Loop(POLL_SECONDS)
    # The next request comes after 80, and its response takes 400 more.
    polls = [
        (loop.turn_after(80, answered=False), loop.turn_after(400, answered=True)) for _ in range(4)
    ]
    # The one poll after the request ends the series.
    assert polls == [(0, 0), (0, 0), (80, 1), (80, 1)]


def test_nothing_is_polled_without_a_time() -> None:
    loop = Loop(0.0)
    assert [loop.turn_after(gap) for gap in (10, 0, 0)] == [0, 0, 0]


def test_a_poll_ends_once_what_was_waited_for_is_there() -> None:
    loop = Loop(POLL_SECONDS)
    assert [loop.turn_after(80) for _ in range(3)] == [0, 0, 80]
    loop.stop()
    assert loop.turn_after(80) == 1, "the one that was under way"


@pytest.mark.parametrize(
    ("lost_share", "polls"),
    [(LOST_SHARE_MAX / 2, True), (2 * LOST_SHARE_MAX, False)],
    ids=["small programs", "a program that computes"],
)
@pytest.mark.parametrize("found_by", ["stop", "the next turn", ""])
def test_it_does_not_poll_while_others_need_the_processor(
    lost_share: float, polls: bool, found_by: str
) -> None:
    now_seconds, soon, poll_seconds = 0.0, list[Callable[[], None]](), 0.004
    busy_poll = BusyPoll(
        poll_seconds,
        call_soon=soon.append,
        clock_seconds=lambda: now_seconds,
        cpu_seconds=lambda: now_seconds * (1 - lost_share),
    )
    for _ in range(VAIN_COUNT_MAX):
        busy_poll.turn_ended(now_seconds, now_seconds, answered=True)
        now_seconds += poll_seconds / 2 if found_by else poll_seconds
        if found_by == "stop":
            busy_poll.stop(now_seconds)
        if found_by != "the next turn":
            while soon:
                soon.pop(0)()
    busy_poll.turn_ended(now_seconds, now_seconds, answered=True)
    for poll in [soon.pop() for _ in range(len(soon))]:
        poll()
    assert bool(soon) is polls


@pytest.mark.parametrize(
    ("found_each", "pauses"),
    [(100, True), (VAIN_COUNT_MAX + 1, True), (VAIN_COUNT_MAX, False), (2, False)],
)
def test_it_does_not_poll_after_many_polls_in_a_row_in_vain(found_each: int, pauses: bool) -> None:
    lost = LostTime()
    for number in range(1, 3 * VAIN_COUNT_MAX):
        lost.note(0.001, 0.001, 0.001 * number, has_found=number % found_each == 0)
    assert (lost.pause_end_seconds > 0) is pauses


def test_a_poll_is_in_vain_if_it_ends_before_the_next_turn() -> None:
    loop = Loop(POLL_SECONDS / 1_000_000)
    loop.step_seconds = loop.turn_seconds = POLL_STEP_SECONDS / 1_000_000
    polls = [loop.turn_after(gap / 1_000_000) for gap in [200] * (VAIN_COUNT_MAX + 4)]
    assert [bool(count) for count in polls[2:]] == [True] * VAIN_COUNT_MAX + [False] * 2


def _lose_all(lost: LostTime, now_seconds: float) -> float:
    """Have a poll of which nothing is left, and return how long none is wanted then."""
    lost.note(2 * SPARE_SECONDS_MAX, 0.0, now_seconds, has_found=True)
    return lost.pause_end_seconds - now_seconds


def test_polls_that_go_wrong_again_soon_are_followed_by_longer_pauses() -> None:
    lost, now_seconds, pauses = LostTime(), 0.0, []
    for _ in range(6):
        pauses.append(_lose_all(lost, now_seconds))
        now_seconds = lost.pause_end_seconds + 0.001
    assert pauses[:3] == pytest.approx([PAUSE_SECONDS_MIN * factor for factor in (1, 2, 4)])
    assert pauses[-1] == pytest.approx(PAUSE_SECONDS_MAX)
    after_long = _lose_all(lost, now_seconds + PAUSE_SECONDS_MAX)
    assert after_long == pytest.approx(PAUSE_SECONDS_MIN)


def test_a_poll_that_lost_little_counts_for_a_while_only() -> None:
    lost, began = LostTime(), LostTime().pause_end_seconds
    for number in range(1000):  # each hundredth loses a millisecond to a small program
        own_seconds = 0.0001 if number % 100 else -0.0009
        lost.note(0.0001, own_seconds, 0.0001 * number, has_found=True)
    assert lost.pause_end_seconds == began
