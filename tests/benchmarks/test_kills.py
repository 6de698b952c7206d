"""What is kept of the long runs of kills: merged and drawn."""

from pathlib import Path

import pytest

from benchmarks.kills import TABLE_NAME, Incident, note, percentile, read


def incident(number: int = 0, stall_ms: int = 10) -> Incident:
    return Incident(
        case="kill",
        role="Reput",
        transport="notifications",
        number=number,
        stall_ms=stall_ms,
        back_ms=500 + number,
        lost=0,
        doubled=0,
        acknowledged=100,
        load_average=1.5,
    )


def test_an_incident_that_is_repeated_takes_the_place_of_the_older(tmp_path: Path) -> None:
    note(incident(1), tmp_path)
    note(incident(0, stall_ms=20), tmp_path)
    note(incident(0, stall_ms=30), tmp_path)
    assert read(tmp_path) == [incident(0, stall_ms=30), incident(1)]
    row = "| Reput | notifications | 2 | - | 30 | 30 | 500 | 501 | 501 | 200 | 0 | 0 | - | 1.5 |"
    assert row in (tmp_path / TABLE_NAME).read_text().splitlines()


@pytest.mark.parametrize(("percent", "value"), [(50, 10), (95, 19), (100, 20), (1, 1)])
def test_a_percentile_is_one_of_the_values(percent: float, value: int) -> None:
    assert percentile(range(20, 0, -1), percent) == value
