"""Times as users write them."""

import pytest

from wakelog.actors.errors import NotPossible
from wakelog.cli.cluster.times import read_moment_ms, read_span_ms

NOW_MS = 1_795_500_000_000


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("beginning", 0),
        ("now", -1),
        ("10m", NOW_MS - 600_000),
        ("1d", NOW_MS - 86_400_000),
        ("1795500000000", NOW_MS),
        ("2026-11-24T06:00:00+00:00", 1_795_500_000_000),
    ],
)
def test_a_time_is_read(text: str, moment_ms: int) -> None:
    assert read_moment_ms(text, NOW_MS) == moment_ms


@pytest.mark.parametrize("text", ["", "5", "m", "1w", "-5m", "٣m"])
def test_a_length_of_time_needs_number_and_unit(text: str) -> None:
    with pytest.raises(NotPossible, match="no length of time"):
        read_span_ms(text)
