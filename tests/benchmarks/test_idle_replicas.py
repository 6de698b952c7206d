"""What is kept of idle replicas: drawn, and they log nothing."""

from pathlib import Path

from benchmarks.idle_replicas import PAGE, IdleReplicas, table
from benchmarks.kept import RESULTS

PAIR = IdleReplicas(name="a pair", alone_percent=0.5, together_percent=0.75, lines=0, seconds=40)


def test_a_measurement_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    PAGE.note(
        IdleReplicas(name="a pair", alone_percent=1, together_percent=1, lines=1, seconds=40),
        tmp_path,
    )
    PAGE.note(PAIR, tmp_path)
    assert PAGE.read(tmp_path) == [PAIR]
    page = (tmp_path / PAGE.table_name).read_text().splitlines()
    assert page[-1] == "| a pair | 0.50 | 0.75 | 0.25 | 0 | 40 |"


def test_what_is_kept_is_drawn_and_nothing_was_logged() -> None:
    kept = PAGE.read()
    assert kept and (RESULTS / PAGE.table_name).read_text() == table(kept)
    assert all(not one.lines for one in kept)
