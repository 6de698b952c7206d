"""What is kept of simulated groups: drawn, a million schedules, nothing found."""

from pathlib import Path

import msgspec

from benchmarks.group_schedules import PAGE, Case, table
from benchmarks.kept import RESULTS
from tests.simulation.group_schedules import CASES

CASE = Case(
    case="S5 power", schedules=1_000, answers=2_000, epochs=3_000, violations=0, cpu_seconds=4
)


def test_a_run_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    PAGE.note(msgspec.structs.replace(CASE, answers=1), tmp_path)
    PAGE.note(CASE, tmp_path)
    assert PAGE.read(tmp_path) == [CASE]
    page = (tmp_path / PAGE.table_name).read_text().splitlines()
    assert page[-1] == "| S5 power | 1,000 | 2,000 | 3,000 | 0 | 4 |"


def test_a_million_schedules_broke_no_promise() -> None:
    kept = PAGE.read()
    assert (RESULTS / PAGE.table_name).read_text() == table(kept)
    assert {one.case for one in kept} == set(CASES)
    assert sum(one.schedules for one in kept) == 1_000_000
    assert not any(one.violations for one in kept)
    assert all(one.answers and one.epochs for one in kept)
