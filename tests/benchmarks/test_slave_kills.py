"""What is kept of killed masters and slaves: drawn, and nothing was lost."""

from pathlib import Path

from benchmarks.kept import RESULTS
from benchmarks.slave_kills import PAGE, SlaveKills, table

RUN = SlaveKills(name="both", kills=300, messages=1_000, rolls=5, lost=0, seconds=60)


def test_a_run_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    PAGE.note(SlaveKills(name="both", kills=1, messages=1, rolls=1, lost=1, seconds=1), tmp_path)
    PAGE.note(RUN, tmp_path)
    assert PAGE.read(tmp_path) == [RUN]
    page = (tmp_path / PAGE.table_name).read_text().splitlines()
    assert page[-1] == "| both | 300 | 1,000 | 5 | 0 | 60 |"


def test_what_is_kept_is_drawn_and_nothing_was_lost() -> None:
    kept = PAGE.read()
    assert kept and (RESULTS / PAGE.table_name).read_text() == table(kept)
    assert all(one.kills and one.messages and not one.lost for one in kept)
