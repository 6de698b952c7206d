"""How often the shell of the console reads."""

import pytest

from wakelog.console.reader import pause_after


@pytest.mark.parametrize(
    ("taken_seconds", "is_watched", "pause_seconds"),
    [
        (0.1, True, 5.0),
        (0.1, False, 30.0),
        (2.0, True, 20.0),
        (2.0, False, 30.0),
        (9.0, True, 60.0),
    ],
)
def test_a_reading_that_takes_long_is_made_less_often(
    taken_seconds: float, is_watched: bool, pause_seconds: float
) -> None:
    assert pause_after(taken_seconds, is_watched=is_watched) == pytest.approx(pause_seconds)
