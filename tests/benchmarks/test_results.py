"""Results: a summary follows from the pairs, and a promise is held against its median."""

from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.rows import ROWS
from tests.benchmarks.examples import example, row_named


def test_a_ratio_is_taken_within_a_pair_and_above_1_where_wakelog_is_better() -> None:
    result = example(row_named("sync-1"), 2.0, 0.5, 1.25)
    for figure in row_named("sync-1").figures:
        ratio = result["summary"][figure.name]["ratio"]
        assert ratio == {"median": 1.25, "min": 0.5, "max": 2.0}
    assert result["summary"]["per_second"]["wakelog"] == {"median": 125, "min": 50, "max": 200}
    assert result["summary"]["p50_ms"]["wakelog"] == {"median": 80, "min": 50, "max": 200}


@pytest.mark.parametrize(
    ("ratio", "missed"), [(0.94, ["per_second", "broker_cpu"]), (0.951, []), (3.0, [])]
)
def test_a_promise_is_held_against_the_median(ratio: float, missed: list[str]) -> None:
    row = row_named("sync-64")
    assert results.missed(row, example(row, ratio, ratio, 100.0)) == missed


@pytest.mark.parametrize(("ratio", "missed"), [(0.5, ["above_empty_percent"]), (50.0, [])])
def test_an_idle_broker_is_held_to_a_share_of_a_core(ratio: float, missed: list[str]) -> None:
    row = row_named("idle")
    assert results.missed(row, example(row, ratio)) == missed


def test_a_row_without_a_sound_pair_misses_what_it_promises() -> None:
    row = row_named("consume")
    assert results.missed(row, example(row)) == ["per_second", "broker_cpu"]


def test_a_figure_that_one_side_lacks_has_no_ratio() -> None:
    row = row_named("idle")
    result = example(row, 2.0)
    del result["pairs"][0]["rocketmq"]["above_empty_percent"]
    summary = results.summarise(row.figures, result["pairs"])["above_empty_percent"]
    assert summary == {"wakelog": {"median": 50, "min": 50, "max": 50}}


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    written = {row.name: example(row, 1.5) for row in ROWS[:3]}
    for result in reversed(written.values()):
        results.write(result, tmp_path)
    assert list(results.read_all(tmp_path).items()) == list(written.items())
