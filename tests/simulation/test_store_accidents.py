"""Second brokers are refused with nothing written; changed bits take no other message away."""

import pytest

from tests.simulation.images import Model
from tests.simulation.machine import simulated_config
from tests.simulation.store_accidents import (
    another_owner,
    flipped_bit,
    foreign_broker,
    left_behind,
    lost_again,
    lost_entries,
    lost_folders,
    lost_tail,
    misdirected_write,
    second_broker,
    summed_bit,
    torn_bit,
)
from tests.simulation.trial import Tally

pytestmark = pytest.mark.simulation

BITS_COUNTS = [100, pytest.param(2_000, marks=pytest.mark.long)]


def test_a_second_broker_is_refused_with_nothing_written() -> None:
    second_broker(simulated_config())


def test_the_lock_of_a_real_broker_is_seen() -> None:
    foreign_broker(simulated_config())


@pytest.mark.slow
@pytest.mark.parametrize("count", BITS_COUNTS)
def test_a_changed_bit_loses_no_other_message(count: int) -> None:
    left = left_behind(simulated_config())
    for seed in range(count):
        flipped_bit(left, seed, is_expected=seed % 2 == 1)


@pytest.mark.parametrize("count", [24, pytest.param(200, marks=pytest.mark.long)])
def test_a_changed_bit_is_found_by_its_sum(count: int) -> None:
    for seed in range(count):
        summed_bit(simulated_config(), seed)


@pytest.mark.slow
@pytest.mark.parametrize("count", BITS_COUNTS)
def test_a_bit_changed_above_the_watermark_is_a_torn_tail(count: int) -> None:
    lefts = [left_behind(simulated_config(), *["put"] * puts) for puts in (1, 2, 3)]
    for seed in range(count):
        torn_bit(lefts[seed % 3], seed)


def test_a_tail_that_the_disk_lost_is_listed() -> None:
    for seed in range(16):
        lost_tail(simulated_config(), seed)


def test_a_misdirected_write_loses_no_other_message() -> None:
    for seed in range(32):
        misdirected_write(simulated_config(synchronous=seed % 4 < 2), seed)


def test_a_queue_that_lost_its_entries_gets_them_again() -> None:
    for seed in range(24):
        lost_entries(simulated_config(), seed)


@pytest.mark.parametrize("folders", ["queues", "index", "queues and index"])
def test_queues_and_index_that_were_lost_whole_are_made_again(folders: str) -> None:
    config = simulated_config()
    places = {"queues": config.paths.consume_queue_root, "index": config.paths.index_directory}
    lost = tuple(f"{place}/" for name, place in places.items() if name in folders)
    for seed in range(12):
        lost_folders(config, seed, lost)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))]
)
def test_a_crash_while_lost_entries_are_made_again_leaves_none_out(seed: int) -> None:
    settings: tuple[dict[str, bool], ...] = (
        {},
        {"synchronous": False},
        {"message_index_enable": False},
    )
    config = simulated_config(**settings[seed * 2 % 3])
    lost_again(config, seed, list(Model)[seed % 2], Tally())


def test_what_another_broker_wrote_over_does_not_come_back() -> None:
    for seed in range(10):
        another_owner(simulated_config(), seed)
