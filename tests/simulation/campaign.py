"""Many trials, one after the other: a seed says all of one, so that a seed is a replay.

Low seeds are the short workloads, shortest first, each under both persistence models; every fourth
of them with asynchronous flush. Later seeds draw long workloads. A campaign takes seed after
seed until it has seen so many images, and stops at the first violation; `blocks` has those that
take hours.
"""

import itertools
from collections.abc import Iterable, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

from tests.simulation.images import Model
from tests.simulation.machine import simulated_config
from tests.simulation.oracle import Violation
from tests.simulation.transactions import TransactionMachine
from tests.simulation.trial import Tally, Trial
from tests.simulation.workloads import (
    BESIDE_QUEUES,
    REPUT_KILLED,
    jumping_workload,
    long_workload,
    short_workloads,
)

SHORT_STEPS_MAX = 4
LONG_STEPS = (6, 30)
JUMPING_STEPS = 8
ASYNCHRONOUS_ONE_IN = 4
INDEX_CUT_SEEDS = range(2)
INDEX_CUT_SEEDS_LONG = range(8)
SETTINGS_APART = 3
SLOTS_OF_TORN_ENTRY = 100
"""With so many a sector ends within the index's third entry, after its physical offset."""


class Case(NamedTuple):
    """What a seed stands for."""

    seed: int
    steps: tuple[str, ...]
    model: Model
    is_synchronous: bool

    def __str__(self) -> str:
        flush = "synchronous" if self.is_synchronous else "asynchronous"
        return f"seed {self.seed}: {' '.join(self.steps)}; {self.model.value}, {flush} flush"


class Setting(NamedTuple):
    """A way to run one workload; the seed's bits are its values."""

    seed: int
    model: Model
    is_synchronous: bool
    has_index: bool


SETTINGS = tuple(
    Setting(seed, *values)
    for seed, values in enumerate(itertools.product(Model, (True, False), (True, False)))
)


class Found(Exception):
    """A violation, with the case that shows it.

    first: the seed to begin with, where what is found depends on what the seeds before had checked.
    """

    def __init__(self, case: Case, violation: Violation, first: int | None = None) -> None:
        self.case = case
        self.violation = violation
        seeds = case.seed if first is None else f"{first}-{case.seed}"
        super().__init__(f"{violation}\n{case}\nreplay: ./dev simulate --replay {seeds}")


@cache
def _short() -> list[tuple[str, ...]]:
    return list(short_workloads(SHORT_STEPS_MAX))


def short_seeds(length_max: int) -> range:
    """Return the seeds of all workloads of up to so many steps."""
    return range(2 * sum(len(steps) - 1 <= length_max for steps in _short()))


def case_of(seed: int) -> Case:
    """Return what a seed stands for."""
    number, model = seed // 2, list(Model)[seed % 2]
    is_synchronous = number % ASYNCHRONOUS_ONE_IN != ASYNCHRONOUS_ONE_IN - 1
    if number < len(_short()):
        return Case(seed, _short()[number], model, is_synchronous)
    rng = Random(seed)
    return Case(seed, long_workload(rng, rng.randint(*LONG_STEPS)), model, is_synchronous)


def run_case(case: Case, tally: Tally) -> None:
    """Run one trial. Raises: Found."""
    config = simulated_config(synchronous=case.is_synchronous)
    try:
        Trial(config, case.model, case.seed, tally).run(case.steps)
    except Violation as violation:
        raise Found(case, violation) from violation


def one_model_each(seeds: Iterable[int]) -> list[int]:
    """Leave one of the two seeds of each workload, so that both models meet both ways to flush."""
    return [seed for seed in seeds if seed % 2 == seed // (2 * ASYNCHRONOUS_ONE_IN) % 2]


def settings_of(number: int) -> list[Setting]:
    """Return half of `SETTINGS` in which any two values meet, the other half for odd numbers."""
    return [setting for setting in SETTINGS if setting.seed.bit_count() % 2 == number % 2]


def one_model(number: int) -> list[Model]:
    """Return one of the models, by turns."""
    return [list(Model)[number % len(Model)]]


def one_setting(number: int) -> Sequence[Setting]:
    """Return one setting; over a few numbers each value of each comes up."""
    return [SETTINGS[number * SETTINGS_APART % len(SETTINGS)]]


def run_reput_killed(number: int, tally: Tally, settings: Sequence[Setting] | None = None) -> None:
    """Run a workload of `REPUT_KILLED`, in half of the settings if None. Raises: Violation."""
    for seed, model, synchronous, index in settings or settings_of(number):
        config = simulated_config(synchronous=synchronous, message_index_enable=index)
        Trial(config, model, seed, tally).run(REPUT_KILLED[number])


def run_beside(steps: tuple[str, ...], tally: Tally, models: Iterable[Model] = Model) -> None:
    """Run a workload of `MADE_AHEAD` or `SUMMED` under these models. Raises: Violation."""
    for model in models:
        seed = list(Model).index(model)
        Trial(simulated_config(synchronous=seed == 0), model, seed, tally).run(steps)


def _one_of_each(steps: tuple[str, ...]) -> list[Setting]:
    """Return one setting, another one for workloads of another length."""
    return settings_of(0)[len(steps) % 4 :][:1]


def run_deleted(steps: tuple[str, ...], tally: Tally, *, is_long: bool = False) -> None:
    """Run a workload of `DELETED`, in every setting if long. Raises: Violation."""
    for seed, model, synchronous, index in SETTINGS if is_long else _one_of_each(steps):
        config = simulated_config(synchronous=synchronous, message_index_enable=index)
        Trial(config, model, seed, tally).run(steps)


def run_transactions(
    steps: tuple[str, ...],
    tally: Tally,
    *,
    is_long: bool = False,
    machine_type: type[TransactionMachine] = TransactionMachine,
) -> None:
    """Run a workload of `TRANSACTIONS`, in every setting if long. Raises: Violation."""
    for seed, model, synchronous, index in SETTINGS if is_long else _one_of_each(steps):
        config = simulated_config(synchronous=synchronous, message_index_enable=index)
        Trial(config, model, seed, tally, machine_type=machine_type).run(steps)


def run_index_cut(
    steps: tuple[str, ...], tally: Tally, seeds: Iterable[int] = INDEX_CUT_SEEDS
) -> None:
    """Run a workload of `INDEX_CUT`, the models by turns. Raises: Violation."""
    config = simulated_config(synchronous=False, index_slot_count=SLOTS_OF_TORN_ENTRY)
    for seed in seeds:
        Trial(config, list(Model)[seed % 2], seed, tally).run(steps)


def two_settings(number: int) -> list[Setting]:
    """Return two settings, with one model each."""
    return settings_of(number)[number % 2 :: 2]


def run_beside_queues(number: int, tally: Tally, settings: Sequence[Setting] | None = None) -> None:
    """Run a workload of `BESIDE_QUEUES`, in two settings if None. Raises: Violation."""
    for seed, model, synchronous, index in settings or two_settings(number):
        config = simulated_config(
            synchronous=synchronous,
            message_index_enable=index,
            enable_consume_queue_extension=True,
            enable_multi_dispatch=True,
            enable_lmq=True,
        )
        Trial(config, model, seed, tally).run(BESIDE_QUEUES[number])


def run_clock_jumps(seed: int, tally: Tally) -> None:
    """Run a drawn workload in which the clock is set again and again. Raises: Violation."""
    rng = Random(seed)
    _, model, synchronous, index = SETTINGS[seed % len(SETTINGS)]
    config = simulated_config(synchronous=synchronous, message_index_enable=index)
    Trial(config, model, seed, tally).run(jumping_workload(rng, JUMPING_STEPS))


def run_campaign(seeds: Iterable[int], images_count: int, tally: Tally) -> int:
    """Run seeds until `images_count` more images were seen; return the last seed. Raises: Found."""
    wanted = tally.images_count + images_count
    seed = -1
    for seed in seeds:
        run_case(case_of(seed), tally)
        if tally.images_count >= wanted:
            break
    return seed
