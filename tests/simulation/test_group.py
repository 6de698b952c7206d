"""A simulated group keeps its promises in every schedule, and notices each planted mistake."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulation.group_mutants import MUTANTS
from tests.simulation.group_schedules import CASES, run_schedule
from tests.simulation.oracle import Violation

pytestmark = [pytest.mark.simulation]

SCHEDULES = 20_000
LONG_SCHEDULES = 1_000_000
LONG_SEED = 1_000_000
BLOCK = 10_000

CAUGHT_BY = {
    "ack_received": "S1 partitions",
    "set_without_union": "S2 a member leaves and comes back",
    "old_set_alone": "S2 a member leaves and comes back",
    "fastest_counts": "S4 the heir dies",
    "own_copy_unsynced": "S5 power",
    "proposal_dropped_by_a_read": "S1 partitions",
    "late_reads_believed": "S2 a member leaves and comes back",
    "epoch_resumed": "S3 an old master returns",
    "leads_outside_the_set": "S4 the heir dies",
    "leads_while_seeding": "S11 seeding",
    "seeding_unmarked": "S11 seeding",
    "seeding_ends_at_once": "S11 seeding",
    "no_promise_before_ack": "S1 partitions",
    "no_promise_before_proposal": "S1 partitions",
    "start_not_settled": "S8 pauses",
    "joins_early": "S9 frames",
    "any_ack_believed": "S9 frames",
    "cut_without_a_copy": "S3 an old master returns",
    "lines_kept": "S6 clocks",
    "line_not_durable": "S7 disks",
    "appended_anywhere": "S9 frames",
    "shorter_end_in_common": "S8 pauses",
    "bytes_not_compared": "another log",
    "epochs_mixed": "S1 partitions",
    "never_steps_down": "S1 partitions",
    "replaced_without_comparing": "S10 the register",
}
"""Each mistake, and the case whose schedules notice it soonest."""

SEEDS_MAX = 2_000


def _run_block(seed: int) -> int:
    """Run a block of schedules; return how many answers 0 there were."""
    return sum(run_schedule(one).answered_count for one in range(seed, seed + BLOCK))


@pytest.mark.slow
def test_no_schedule_breaks_a_promise(record_property: Callable[[str, object], None]) -> None:
    answered = sum(_run_block(seed) for seed in range(0, SCHEDULES, BLOCK))
    assert answered > SCHEDULES, "schedules in which nothing is acknowledged prove nothing"
    record_property("said", f"groups: {SCHEDULES} schedules, {answered} answers")


@pytest.mark.slow
@pytest.mark.long
def test_no_schedule_of_a_million_breaks_a_promise() -> None:
    seeds = range(LONG_SEED, LONG_SEED + LONG_SCHEDULES, BLOCK)
    with ProcessPoolExecutor() as processes:
        assert sum(processes.map(_run_block, seeds)) > LONG_SCHEDULES


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_noticed(name: str) -> None:
    with MUTANTS[name].active(), pytest.raises((Violation, AssertionError)):
        for seed in range(SEEDS_MAX):
            run_schedule(seed, CAUGHT_BY[name])


@pytest.mark.parametrize("case", CASES)
def test_each_case_serves_without_a_mistake(case: str) -> None:
    assert sum(run_schedule(seed, case).answered_count for seed in range(30)) > 0
