"""When the loop stays awake behind a turn, on a clock that each look at the sockets moves."""

from collections.abc import Callable

import pytest

from wakelog.network.busy_poll import BusyPoll

POLL_SECONDS = 100.0
LOOK_SECONDS = 1.0
TURN_SECONDS = 5.0


class Loop:
    """Counts how often it looked at its sockets instead of sleeping."""

    def __init__(self, poll_seconds: float) -> None:
        self.now_seconds = 0.0
        self._soon: list[Callable[[], None]] = []
        self._busy_poll = BusyPoll(
            poll_seconds, call_soon=self._soon.append, clock_seconds=lambda: self.now_seconds
        )

    def turn_after(self, gap_seconds: float, *, answered: bool = True) -> int:
        """Have a turn so long after the last one; return the looks in between."""
        due = self.now_seconds + gap_seconds
        looks_count = 0
        while self._soon and self.now_seconds < due:
            self.now_seconds += LOOK_SECONDS
            looks_count += 1
            self._soon.pop(0)()
            assert len(self._soon) <= 1
        began = self.now_seconds = max(self.now_seconds, due)
        self.now_seconds += TURN_SECONDS
        self._busy_poll.turn_ended(began, self.now_seconds, answered=answered)
        return looks_count


@pytest.mark.parametrize(
    ("gaps", "looks"),
    [
        pytest.param([10_000, 10_000, 10_000], [0, 0, 0], id="now and then"),
        pytest.param([10_000, 250, 80, 80, 80], [0, 0, 80, 80, 80], id="one by one"),
        pytest.param([10_000, 250, 200, 200, 300, 80], [0, 0, 100, 100, 100, 0], id="too slow"),
        pytest.param([10_000, 0, 0, 50, 10_000], [0, 0, 0, 50, 100], id="the last one"),
        pytest.param([10_000, 50, 10_000, 10_000], [0, 0, 100, 0], id="asleep again"),
    ],
)
def test_it_polls_while_requests_are_close(gaps: list[float], looks: list[int]) -> None:
    loop = Loop(POLL_SECONDS)
    assert [loop.turn_after(gap) for gap in gaps] == looks


def test_only_who_was_answered_is_waited_for() -> None:
    loop = Loop(POLL_SECONDS)
    # A request is back in 80, and its answer takes 400 more.
    looks = [
        (loop.turn_after(80, answered=False), loop.turn_after(400, answered=True)) for _ in range(4)
    ]
    # The one look behind the request ends the poll.
    assert looks == [(0, 0), (0, 0), (80, 1), (80, 1)]


def test_nothing_is_polled_without_a_time() -> None:
    loop = Loop(0.0)
    assert [loop.turn_after(gap) for gap in (10, 0, 0)] == [0, 0, 0]
