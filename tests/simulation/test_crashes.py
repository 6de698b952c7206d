"""The gate: distinct crash images, each recovered, dispatched and checked.

Every workload runs every day, in a setting or two; `./dev long` takes all settings, and has over
ten thousand images.
"""

import itertools
from collections import Counter
from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

from tests.simulation import trial
from tests.simulation.campaign import (
    INDEX_CUT_SEEDS_LONG,
    SETTINGS,
    case_of,
    one_model,
    one_model_each,
    one_setting,
    run_beside,
    run_beside_queues,
    run_campaign,
    run_clock_jumps,
    run_deleted,
    run_index_cut,
    run_reput_killed,
    run_transactions,
    settings_of,
    short_seeds,
    two_settings,
)
from tests.simulation.images import Model
from tests.simulation.trial import Tally
from tests.simulation.workloads import (
    BESIDE_QUEUES,
    DELETED,
    DELETED_LONG,
    INDEX_CUT,
    MADE_AHEAD,
    REPUT_KILLED,
    SUMMED,
    TRANSACTIONS,
    TRANSACTIONS_LONG,
)

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

LONG = pytest.mark.long
PARTS = 8
CLOCK_SEEDS_LONG = 500
IMAGES_COUNT_MIN = 500
IMAGES_COUNT_MIN_LONG = 10_400
TWO_STEPS_APART = 15
AFTERLIVES_DAILY = 1
"""Recoveries of a workload that are crashed in turn; a long run crashes `AFTERLIVES_MAX`."""
SEEDS_APART = 36 * 263
SEEDS_APART_LONG = 263
"""Workloads of three and four steps are visited in strides, so that all beginnings come up."""

_TALLY = Tally()
"""One for all, so that what two workloads have in common is checked once."""


def _long(workloads: Iterable[tuple[str, ...]]) -> list[ParameterSet]:
    return [pytest.param(steps, marks=LONG) for steps in workloads]


@pytest.fixture
def is_long(request: pytest.FixtureRequest) -> bool:
    """Whether to take every setting, and not one of each workload."""
    return bool(request.config.getoption("--long"))


@pytest.fixture(autouse=True)
def daily_afterlives(is_long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_long:
        monkeypatch.setattr(trial, "AFTERLIVES_MAX", AFTERLIVES_DAILY)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_crash_breaks_a_promise(part: int, is_long: bool) -> None:
    shortest, short = short_seeds(1), short_seeds(2)
    of_two_steps = short[len(shortest) :]
    few = [*one_model_each(shortest), *one_model_each(of_two_steps)[::TWO_STEPS_APART]]
    seeds = [*(short if is_long else few)][part::PARTS]
    apart = SEEDS_APART_LONG if is_long else SEEDS_APART
    seeds += range(short.stop + part * apart, short_seeds(3).stop, apart * PARTS)
    assert run_campaign(seeds, 10**9, _TALLY) == seeds[-1]


@pytest.mark.parametrize("number", range(len(REPUT_KILLED)))
def test_what_a_killed_reput_left_is_synced_before_it_counts_as_durable(
    number: int, is_long: bool
) -> None:
    run_reput_killed(number, _TALLY, SETTINGS if is_long else one_setting(number))


@pytest.mark.parametrize("number", range(len(MADE_AHEAD)))
def test_no_crash_of_files_made_ahead_breaks_a_promise(number: int, is_long: bool) -> None:
    run_beside(MADE_AHEAD[number], _TALLY, Model if is_long else one_model(number))


@pytest.mark.parametrize("number", range(len(SUMMED)))
def test_no_crash_leaves_a_sum_that_is_wrong(number: int, is_long: bool) -> None:
    run_beside(SUMMED[number], _TALLY, Model if is_long else one_model(number))


@pytest.mark.parametrize("steps", [*DELETED, *_long(DELETED_LONG)], ids="-".join)
def test_no_crash_brings_a_deleted_topic_back(steps: tuple[str, ...], is_long: bool) -> None:
    run_deleted(steps, _TALLY, is_long=is_long)


@pytest.mark.parametrize("steps", [*TRANSACTIONS, *_long(TRANSACTIONS_LONG)], ids="-".join)
def test_no_crash_loses_or_doubles_a_transaction(steps: tuple[str, ...], is_long: bool) -> None:
    run_transactions(steps, _TALLY, is_long=is_long)


@pytest.mark.parametrize("number", range(len(BESIDE_QUEUES)))
def test_no_crash_breaks_light_queues_or_extension_units(number: int, is_long: bool) -> None:
    run_beside_queues(number, _TALLY, SETTINGS if is_long else two_settings(number)[:1])


@pytest.mark.parametrize(
    "seed",
    [
        setting.seed if setting in settings_of(0) else pytest.param(setting.seed, marks=LONG)
        for setting in SETTINGS
    ],
)
def test_no_crash_breaks_a_promise_whatever_the_clock_does(seed: int, is_long: bool) -> None:
    for each in range(seed, CLOCK_SEEDS_LONG if is_long else len(SETTINGS), len(SETTINGS)):
        run_clock_jumps(each, _TALLY)


@pytest.mark.parametrize("number", range(len(INDEX_CUT)))
def test_no_crash_of_a_cut_of_the_index_breaks_a_promise(number: int, is_long: bool) -> None:
    run_index_cut(INDEX_CUT[number], _TALLY, INDEX_CUT_SEEDS_LONG if is_long else [number])


@pytest.mark.parametrize(
    "count", [IMAGES_COUNT_MIN, pytest.param(IMAGES_COUNT_MIN_LONG, marks=LONG)]
)
def test_so_many_images_differ(count: int) -> None:
    """Take in more of the longer workloads where the tests before this one were left out."""
    seeds = itertools.count(short_seeds(2).stop, SEEDS_APART_LONG)
    run_campaign(seeds, count - _TALLY.images_count, _TALLY)
    assert _TALLY.images_count >= count


def test_half_of_the_settings_has_each_two_values_together() -> None:
    for number in range(2):
        values = [setting[1:] for setting in settings_of(number)]
        for left, right in itertools.combinations(range(3), 2):
            assert len({(each[left], each[right]) for each in values}) == 4
    assert sorted([*settings_of(0), *settings_of(1)], key=lambda x: x.seed) == list(SETTINGS)


def test_either_model_meets_either_way_to_flush() -> None:
    seeds = one_model_each(short_seeds(2))
    assert len({case_of(seed).steps for seed in seeds}) == len(seeds) == len(short_seeds(2)) // 2
    met = Counter((case_of(seed).model, case_of(seed).is_synchronous) for seed in seeds)
    assert len(met) == 4 and min(met.values()) > 10


def test_a_seed_stands_for_one_case() -> None:
    assert [case_of(seed) for seed in (7, 22_221)] == [case_of(seed) for seed in (7, 22_221)]
    assert case_of(0).steps == case_of(1).steps == ("put", "put")
    assert len(case_of(30_000).steps) >= 6
