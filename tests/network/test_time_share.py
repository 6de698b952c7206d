"""A share of the time ends with its work, or with the piece that spends it."""

import pytest

from tests.network.fakes import FakeClock
from wakelog.network.time_share import run_for_a_share


@pytest.mark.parametrize(
    ("pieces", "share_seconds", "done", "more"),
    [
        (3, 10.0, 3, False),
        (3, 2.0, 2, True),
        (3, 0.0, 1, True),
        (1, 0.0, 1, False),
        (5, 3.5, 4, True),
    ],
)
def test_pieces_of_a_second_are_done_until_the_share_is_spent(
    pieces: int, share_seconds: float, done: int, more: bool
) -> None:
    clock, left = FakeClock(), [pieces]

    def step() -> bool:
        clock.seconds += 1.0
        left[0] -= 1
        return left[0] > 0

    assert run_for_a_share(step, share_seconds, clock) is more
    assert pieces - left[0] == done
