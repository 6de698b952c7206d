"""A task is never early, and takes few hops."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.protocol.delay_levels import DEFAULT_DELAY_LEVELS, read_delay_levels
from wakelog.tasks.due import DUE_PROPERTY, due_of, level_before

DELAYS_MS = read_delay_levels(DEFAULT_DELAY_LEVELS)
HOPS_MAX = 12
TWO_HOURS_MS = 7_200_000


@pytest.mark.parametrize(
    ("remaining_ms", "level"),
    [(-5, 0), (0, 0), (999, 0), (1_000, 1), (4_999, 1), (95_000, 5), (10**12, 18)],
)
def test_the_longest_level_before_the_time_is_taken(remaining_ms: int, level: int) -> None:
    assert level_before(remaining_ms, DELAYS_MS) == level


@given(st.integers(1, TWO_HOURS_MS))
def test_hops_are_few_and_end_less_than_a_second_before_the_time(remaining_ms: int) -> None:
    hops = 0
    while level := level_before(remaining_ms, DELAYS_MS):
        remaining_ms -= DELAYS_MS[level - 1]
        hops += 1
    assert hops <= HOPS_MAX
    assert 0 <= remaining_ms < min(DELAYS_MS)


@pytest.mark.parametrize(
    ("text", "due_ms"), [("1700", 1700), ("", 0), ("-1", 0), ("soon", 0), ("\u0663", 0), (None, 0)]
)
def test_a_due_time_that_is_none_means_at_once(text: str | None, due_ms: int) -> None:
    assert due_of({} if text is None else {DUE_PROPERTY: text}) == due_ms
