"""Numbers and times as pages show them."""

import pytest

from wakelog.console.quantities import (
    NOTHING,
    age_text,
    bytes_text,
    lasting_text,
    number_text,
    percent_text,
    rate_text,
    span_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (0.254, "0.25"),
        (12.34, "12.3"),
        (999, "999"),
        (999.6, "1.00 k"),
        (48_120, "48.1 k"),
        (38_100_000, "38.1 M"),
        (None, NOTHING),
    ],
)
def test_a_number_has_three_figures_at_most(value: float | None, text: str) -> None:
    assert number_text(value) == text


def test_sizes_rates_and_parts_have_their_units() -> None:
    assert [bytes_text(x) for x in (512, 1_536, 41 << 30)] == ["512 B", "1.50 KiB", "41 GiB"]
    assert [rate_text(x) for x in (4_210, None)] == ["4.21 k/s", NOTHING]
    assert [percent_text(x) for x in (0.83, 0.001)] == ["83 %", "0.10 %"]


@pytest.mark.parametrize(
    ("elapsed_ms", "text"),
    [
        (-5, "0 s"),
        (59_400, "59 s"),
        (370_000, "6 min 10 s"),
        (3_600_000, "1 h"),
        (9_000_000, "2 h 30 min"),
        (90 * 86_400_000, "90 days"),
    ],
)
def test_a_time_is_written_in_its_two_largest_units(elapsed_ms: int, text: str) -> None:
    assert span_text(elapsed_ms) == text


@pytest.mark.parametrize(
    ("elapsed_ms", "text"),
    [
        (-1, "now"),
        (4_400, "now"),
        (59_000, "59 s ago"),
        (61_000, "1 min ago"),
        (370_000, "6 min ago"),
        (47 * 3_600_000, "47 h ago"),
        (48 * 3_600_000, "2 days ago"),
    ],
)
def test_how_long_ago_is_written_in_one_unit(elapsed_ms: int, text: str) -> None:
    assert age_text(elapsed_ms) == text


@pytest.mark.parametrize(
    ("elapsed_ms", "text"), [(-1, "0 s"), (4_400, "4 s"), (370_000, "6 min"), (1 << 28, "3 days")]
)
def test_how_long_something_lasts_is_written_in_one_unit(elapsed_ms: int, text: str) -> None:
    assert lasting_text(elapsed_ms) == text
