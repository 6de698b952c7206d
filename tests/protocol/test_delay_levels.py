"""The table of delay levels, and the level of a delay."""

import pytest

from wakelog.protocol.delay_levels import DEFAULT_DELAY_LEVELS, level_of, read_delay_levels


def test_the_default_table_has_18_levels_up_to_two_hours() -> None:
    delays_ms = read_delay_levels(DEFAULT_DELAY_LEVELS)
    assert (len(delays_ms), delays_ms[0], delays_ms[17]) == (18, 1_000, 7_200_000)


@pytest.mark.parametrize("text", ["", "1s  5s", "1", "s", "1w", "-1s"])
def test_a_table_that_no_broker_accepts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="numbers with s, m, h or d"):
        read_delay_levels(text)


@pytest.mark.parametrize(
    ("delay_ms", "level"), [(1, 2), (1_000, 2), (1_001, 1), (5_000, 1), (60_000, 3), (60_001, None)]
)
def test_a_delay_gets_the_shortest_level_that_is_not_under_it(
    delay_ms: int, level: int | None
) -> None:
    assert level_of(delay_ms, read_delay_levels("5s 1s 1m")) == level
