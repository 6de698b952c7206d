"""What is kept of storms of kills: merged, drawn, complete, and nothing lost in any."""

from pathlib import Path

import pytest

from benchmarks.kept import RESULTS
from benchmarks.kills import TABLE_NAME, note_storm, totals
from benchmarks.storms import Storm, kills_by_role, sections
from benchmarks.storms import read as read_storms
from tests.actors.storm import KILLS_COUNT_LONG
from tests.actors.supervised_brokers import STORM_KINDS

ROUNDS_COUNT = 10


def storm(number: int = 0, mode: str = "synchronous", whole_ms: int = 900) -> Storm:
    return Storm(
        mode=mode,
        number=number,
        back_ms={"Broker": (2000, 2500), "Reput": (1000, 1100 + number)},
        whole_ms=whole_ms,
        seconds=30.5,
        acknowledged=1000,
        lost=0,
        doubled=0,
        late_lost=0,
        changed=0,
        load_average=2.5,
    )


def test_a_storm_that_is_repeated_takes_the_place_of_the_older(tmp_path: Path) -> None:
    note_storm(storm(1), tmp_path)
    note_storm(storm(0, whole_ms=100), tmp_path)
    note_storm(storm(0), tmp_path)
    assert read_storms(tmp_path) == [storm(0), storm(1)]
    page = (tmp_path / TABLE_NAME).read_text().splitlines()
    assert "| synchronous | 2 | 8 | 61 | 900 | 2000 | 0 | 0 | 0 | 0 | 2.5 |" in page
    assert "| Reput | 4 | 4 | 1000 | 1100 | 1101 |" in page
    assert "| Reput | 0 | 0 | 4 | 4 | 0 | 0 |" in page


def test_without_storms_there_is_no_section() -> None:
    assert sections([]) == []
    assert read_storms(Path("/nowhere")) == []


def test_kills_are_counted_by_role_and_mode() -> None:
    found = kills_by_role([storm(0), storm(0, "asynchronous")])
    assert list(found) == ["Broker", "Reput"]
    assert found["Reput"] == {"synchronous": [1000, 1100], "asynchronous": [1000, 1100]}
    assert storm().kills_count == 4
    assert totals([], [storm()])[2:] == [
        "| Broker | 0 | 0 | 2 | 2 | 0 | 0 |",
        "| Reput | 0 | 0 | 2 | 2 | 0 | 0 |",
    ]


def test_nothing_was_lost_doubled_or_changed_in_a_storm() -> None:
    for one in read_storms(RESULTS):
        assert one.acknowledged
        assert (one.lost, one.doubled, one.late_lost, one.changed) == (0, 0, 0, 0)


@pytest.mark.parametrize("mode", STORM_KINDS)
def test_the_storms_of_a_mode_are_complete(mode: str) -> None:
    kept = [one for one in read_storms(RESULTS) if one.mode == mode]
    assert [one.number for one in kept] == list(range(ROUNDS_COUNT))
    for one in kept:
        for role in STORM_KINDS[mode].roles:
            assert len(one.back_ms[role]) == KILLS_COUNT_LONG
