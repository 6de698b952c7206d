"""Each mutant is caught by the experiment this table names; without it nothing is found."""

from collections.abc import Callable

import pytest

from tests.simulation.campaign import (
    Found,
    case_of,
    run_beside_queues,
    run_case,
    run_index_cut,
    run_reput_killed,
)
from tests.simulation.fault_trial import Fault, run_failed_lowering, run_fault
from tests.simulation.faults import Failure, SyncFailure
from tests.simulation.images import Model
from tests.simulation.machine import simulated_config
from tests.simulation.mutants import MUTANTS
from tests.simulation.oracle import Violation
from tests.simulation.store_accidents import (
    another_owner,
    flipped_bit,
    foreign_broker,
    left_behind,
    lost_again,
    lost_entries,
    lost_tail,
    second_broker,
)
from tests.simulation.trial import Tally
from tests.simulation.workloads import INDEX_CUT

pytestmark = [pytest.mark.simulation]


def crashes(seed: int) -> Callable[[], None]:
    """Crash the workload of a seed everywhere."""
    return lambda: run_case(case_of(seed), Tally())


def failed_sync(nth: int) -> Callable[[], None]:
    """Let the nth datasync fail, and leave the new content in memory."""
    fault = Fault("datasync", Failure(sync_failure=SyncFailure.CLEAN_NEW))

    def experiment() -> None:
        assert run_fault(fault, nth, simulated_config(), Model.EXT4_ORDERED, Tally())

    return experiment


def failed_lowerings() -> None:
    """Let each of the first syncs fail of a start that lowers what is known to be durable."""
    config = simulated_config(synchronous=False, message_index_enable=False)
    for nth in range(10, 16):
        run_failed_lowering(nth, config, Model.STRICT_POSIX, Tally())


def changed_bit(seed: int, *, is_expected: bool = False) -> Callable[[], None]:
    """Flip a bit below what is durable."""
    return lambda: flipped_bit(left_behind(simulated_config()), seed, is_expected=is_expected)


def lost_twice(seed: int) -> Callable[[], None]:
    """Crash everywhere while a queue that has lost its entries gets them again."""
    config = simulated_config(message_index_enable=False)
    return lambda: lost_again(config, seed, Model.STRICT_POSIX, Tally())


CAUGHT_BY: dict[str, Callable[[], None]] = {
    "acknowledge_failed_sync": failed_sync(17),
    "retry_failed_sync": failed_sync(17),
    "reopen_after_failed_sync": failed_sync(17),
    "believe_the_page_cache": failed_sync(17),
    "sync_newest_segment": crashes(626),
    "acknowledge_what_is_written": crashes(0),
    "truncate_in_memory": crashes(0),
    "end_at_the_first_bad_record": changed_bit(0, is_expected=True),
    "watermark_ahead_of_the_log": crashes(0),
    "watermark_unheeded": changed_bit(10),
    "watermark_of_another_broker": lambda: another_owner(simulated_config(), 0),
    "lock_text_unheeded": lambda: another_owner(simulated_config(), 0),
    "believe_what_the_crc_leaves_out": crashes(42),
    "lock_after_recovery": lambda: second_broker(simulated_config()),
    "flock_instead_of_record_lock": lambda: foreign_broker(simulated_config()),
    "checkpoint_ahead_of_queues": crashes(22_220),
    "delete_then_rename": crashes(12),
    "config_unsynced": crashes(12),
    "no_directory_sync": crashes(0),
    "queue_names_unsynced": crashes(22_222),
    "later_queue_name_unsynced": lambda: run_reput_killed(5, Tally()),
    "segment_name_unsynced": crashes(0),
    "abort_mark_unsynced": crashes(22_230),
    "dispatch_past_readable": crashes(8),
    "queue_ends_from_queues_alone": crashes(0),
    "index_dropped_after_a_crash": crashes(22_220),
    "dispatched_ahead_of_queues": crashes(22_220),
    "marks_of_the_page_cache": failed_lowerings,
    "dispatched_of_another_broker": lambda: another_owner(simulated_config(), 1),
    "records_below_unchecked": lambda: lost_tail(simulated_config(), 1),
    "left_unsynced_by_a_killed_reput": lambda: run_reput_killed(5, Tally()),
    "slots_of_torn_entries_emptied": crashes(22_220),
    "index_cut_unsaid": lambda: run_index_cut(INDEX_CUT[0], Tally()),
    "queues_not_checked_after_a_crash": crashes(22_226),
    "blank_queue_unheeded": lambda: lost_entries(simulated_config(), 0),
    "blank_queue_removed_at_once": lost_twice(0),
    "vouched_for_while_made_again": lost_twice(4),
    "cut_before_it_is_kept": lambda: run_reput_killed(1, Tally()),
    "light_queues_uncounted": lambda: run_beside_queues(0, Tally()),
    "units_left_unsynced_by_a_killed_reput": lambda: run_beside_queues(3, Tally()),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_the_mutant_is_caught(name: str) -> None:
    with MUTANTS[name].active(), pytest.raises((Found, Violation)):
        CAUGHT_BY[name]()


@pytest.mark.long
@pytest.mark.parametrize(
    "experiment",
    [
        crashes(0),
        crashes(8),
        crashes(42),
        crashes(12),
        crashes(18_288),
        crashes(22_222),
        failed_sync(17),
        changed_bit(0, is_expected=True),
    ],
    ids=["seed0", "seed8", "seed42", "seed12", "seed18288", "seed22222", "sync", "bit"],
)
def test_what_catches_them_finds_nothing_without(experiment: Callable[[], None]) -> None:
    experiment()


def test_the_table_names_every_mutant() -> None:
    assert CAUGHT_BY.keys() == MUTANTS.keys()
    assert len(MUTANTS) >= 14
