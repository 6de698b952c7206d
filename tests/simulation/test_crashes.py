"""The gate: ten thousand distinct crash images, each recovered, dispatched and checked."""

from __future__ import annotations

import itertools

import pytest

from tests.simulation.campaign import (
    case_of,
    run_beside,
    run_campaign,
    run_everywhere,
    run_index_cut,
    short_seeds,
)
from tests.simulation.trial import Tally
from tests.simulation.workloads import INDEX_CUT, MADE_AHEAD, REPUT_KILLED, SUMMED

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

PARTS = 8
IMAGES_OF_A_PART = 1_300
SEEDS_APART = 263
"""Workloads of three and four steps are visited in strides, so that all beginnings come up."""

_TALLY = Tally()


@pytest.mark.parametrize("part", range(PARTS))
def test_no_crash_breaks_a_promise(part: int) -> None:
    before = _TALLY.images_count
    shortest = short_seeds(2)
    everywhere = shortest[part::PARTS]
    assert run_campaign(everywhere, 10**9, _TALLY) == everywhere[-1]
    missing = IMAGES_OF_A_PART - (_TALLY.images_count - before)
    run_campaign(itertools.count(shortest.stop + part, SEEDS_APART * PARTS), missing, _TALLY)
    assert _TALLY.images_count - before >= IMAGES_OF_A_PART


@pytest.mark.parametrize("steps", REPUT_KILLED, ids="-".join)
def test_what_a_killed_reput_left_is_synced_before_it_is_called_durable(
    steps: tuple[str, ...],
) -> None:
    run_everywhere(steps)


@pytest.mark.parametrize("steps", MADE_AHEAD, ids="-".join)
def test_no_crash_of_files_made_ahead_breaks_a_promise(steps: tuple[str, ...]) -> None:
    run_beside(steps)


@pytest.mark.parametrize("steps", SUMMED, ids="-".join)
def test_no_crash_leaves_a_sum_that_is_wrong(steps: tuple[str, ...]) -> None:
    run_beside(steps)


@pytest.mark.parametrize("steps", INDEX_CUT, ids="-".join)
def test_no_crash_of_a_cut_of_the_index_breaks_a_promise(steps: tuple[str, ...]) -> None:
    run_index_cut(steps)


def test_a_seed_stands_for_one_case() -> None:
    assert [case_of(seed) for seed in (7, 22_221)] == [case_of(seed) for seed in (7, 22_221)]
    assert case_of(0).steps == case_of(1).steps == ("put", "put")
    assert len(case_of(30_000).steps) >= 6
