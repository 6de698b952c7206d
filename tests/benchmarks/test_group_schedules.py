"""What is kept of simulated groups: drawn, every case, nothing found."""

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


def test_what_is_kept_is_drawn_and_found_nothing() -> None:
    kept = PAGE.read()
    assert (RESULTS / PAGE.json_name).exists() == (RESULTS / PAGE.table_name).exists() == bool(kept)
    assert not kept or (RESULTS / PAGE.table_name).read_text() == table(kept)
    assert not kept or {one.case for one in kept} == set(CASES)
    assert all(one.answers and one.epochs and not one.violations for one in kept)
