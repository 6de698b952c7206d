"""What is kept of failovers under load: drawn, nothing lost, and sends back in time."""

from pathlib import Path

from benchmarks.failovers import FAULTS, PAGE, Back, Faults, table
from benchmarks.kept import RESULTS


def run_of(*backs: Back) -> Faults:
    return Faults(
        number=1,
        backs=backs,
        acknowledged=1_000,
        java_acknowledged=900,
        shown=1_001,
        java_shown=901,
        lost=0,
        gone=0,
        epochs=3,
        led_twice=0,
        seconds=40,
        load_average=0.5,
    )


RUN = run_of(
    Back(fault="kill", python_ms=8_000, java_ms=9_000),
    Back(fault="kill", python_ms=9_000, java_ms=12_000),
    Back(fault="pair", python_ms=500, java_ms=600),
)


def test_a_run_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    PAGE.note(run_of(), tmp_path)
    PAGE.note(RUN, tmp_path)
    assert PAGE.read(tmp_path) == [RUN]
    page = (tmp_path / PAGE.table_name).read_text()
    assert "| SIGKILL to the master | 2 | 8000 | 9000 | 9000 | 9000 | 12000 | 12000 |" in page
    assert "| **all that end a master** | 2 |" in page
    assert "| **all** | 3 | 8000 |" in page


def test_only_what_ends_a_master_counts_as_a_failover() -> None:
    assert RUN.back_ms(1, java=False) == 8_000
    assert RUN.back_ms(99, java=True) == 12_000


def test_what_is_kept_is_drawn_and_lost_nothing() -> None:
    kept = PAGE.read()
    assert kept and (RESULTS / PAGE.table_name).read_text() == table(kept)
    for run in kept:
        assert {one.fault for one in run.backs} == {*FAULTS}
        assert run.acknowledged and run.java_acknowledged and run.shown and run.java_shown
        assert run.epochs > 1 and run.lost == run.gone == run.led_twice == 0
