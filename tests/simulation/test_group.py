"""A simulated group keeps its promises in every schedule, and notices each planted mistake."""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulation.group_mutants import MUTANTS
from tests.simulation.group_schedules import CASES, run_schedule
from tests.simulation.oracle import Violation

pytestmark = [pytest.mark.simulation]

SCHEDULES = 1_000
"""Each day; a day's mistakes show in the first few hundred (`CAUGHT_BY`)."""
LONG_SCHEDULES = 1_000_000
LONG_SEED = 1_000_000
BLOCK = 10_000
CASE_NAMES = list(CASES)

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


Counts = Counter[tuple[str, str]]


def _run_block(seed: int, count: int = BLOCK) -> Counts:
    """Run a block of schedules; return what there was, by case and name. Raises: Violation."""
    counts = Counts()
    for one in range(seed, seed + count):
        begin_seconds = time.process_time()
        case = CASE_NAMES[one % len(CASE_NAMES)]
        group = run_schedule(one, case)
        counts[case, "schedules"] += 1
        counts[case, "answers"] += group.answered_count
        counts[case, "epochs"] += 0 if group.state is None else group.state.epoch
        counts[case, "cpu_us"] += round((time.process_time() - begin_seconds) * 1_000_000)
    return counts


def _sum(counts: Counts, name: str) -> int:
    return sum(counts[case, name] for case in CASES)


@pytest.mark.slow
def test_no_schedule_breaks_a_promise(record_property: Callable[[str, object], None]) -> None:
    counts = _run_block(0, SCHEDULES)
    answered = _sum(counts, "answers")
    assert answered > SCHEDULES, "schedules in which nothing is acknowledged prove nothing"
    record_property("said", f"groups: {SCHEDULES} schedules, {answered} answers")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_no_schedule_of_a_million_breaks_a_promise(
    record_property: Callable[[str, object], None],
) -> None:
    seeds = range(LONG_SEED, LONG_SEED + LONG_SCHEDULES, BLOCK)
    with ProcessPoolExecutor() as processes:
        counts = sum(processes.map(_run_block, seeds), Counts())
    assert _sum(counts, "answers") > _sum(counts, "schedules") == LONG_SCHEDULES
    for case in CASES:
        names = ("schedules", "answers", "epochs", "cpu_us")
        record_property("said", f"{case}: { ({name: counts[case, name] for name in names}) }")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_noticed(name: str) -> None:
    with MUTANTS[name].active(), pytest.raises((Violation, AssertionError)):
        for seed in range(SEEDS_MAX):
            run_schedule(seed, CAUGHT_BY[name])


@pytest.mark.parametrize("case", CASES)
def test_each_case_serves_without_a_mistake(case: str) -> None:
    assert sum(run_schedule(seed, case).answered_count for seed in range(30)) > 0
