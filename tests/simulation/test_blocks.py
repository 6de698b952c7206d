"""Blocks: the same from each process, and merged without doubles."""

import pytest

from tests.simulation import blocks, trial
from tests.simulation.blocks import Block, Merged, run_block, run_blocks
from tests.simulation.campaign import run_campaign
from tests.simulation.mutants import MUTANTS
from tests.simulation.trial import Tally

pytestmark = pytest.mark.simulation


@pytest.fixture(autouse=True)
def few_afterlives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Crash one recovery of a workload: blocks are tried here, not the store."""
    monkeypatch.setattr(trial, "AFTERLIVES_MAX", 1)


def block(first_seed: int, images: dict[int, bytes], found: list[str] | None = None) -> Block:
    return Block(
        first_seed=first_seed,
        last_seed=first_seed + 1,
        images=images,
        attempts_count=5,
        checks_count=3,
        workloads_count=2,
        cpu_seconds=0.5,
        found=found or [],
        source=blocks.source(),
    )


def test_a_block_is_what_its_seeds_are_alone() -> None:
    tally = Tally()
    run_campaign(range(4, 6), 10**9, tally)
    made = run_block(range(4, 6))
    assert {n: len(some) // 16 for n, some in made.images.items()} == tally.generations
    by_generation = sorted(tally.seen.items(), key=lambda item: item[1])
    assert b"".join(made.images.values()) == b"".join(digest for digest, _ in by_generation)
    assert (made.first_seed, made.last_seed, made.workloads_count) == (4, 5, 2)
    assert made.found == [] and made.checks_count == tally.checks_count


def test_an_image_that_two_blocks_have_counts_once_and_where_it_came_first() -> None:
    merged = Merged()
    merged.take(block(0, {1: b"a" * 16 + b"b" * 16, 2: b"c" * 16}))
    merged.take(block(2, {1: b"c" * 16 + b"d" * 16, 2: b"a" * 16}, ["something"]))
    assert merged.images_count == 4 and merged.generations == {1: 3, 2: 1}
    assert merged.last_seed == 3 and merged.found == ["something"]
    assert (merged.attempts_count, merged.cpu_seconds) == (10, 1.0)


def test_a_violation_ends_its_seed_and_prints_the_line_that_replays_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocks, "FOUND_MAX", 2)
    lines: list[str] = []
    with MUTANTS["dispatch_past_readable"].active():
        merged = run_blocks(8, 10**6, block_seeds=1, report_violation=lines.append)
    assert len(merged.found) == 2 and merged.found == lines
    assert lines[0].endswith("\nreplay: ./dev simulate --replay 8")
    assert merged.workloads_count < merged.last_seed


def test_what_a_seed_shows_only_after_others_is_replayed_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocks, "_is_found_alone", lambda seed: False)
    monkeypatch.setattr(blocks, "FOUND_MAX", 1)
    with MUTANTS["dispatch_past_readable"].active():
        (found,) = run_block(range(7, 9)).found
    assert found.endswith("\nreplay: ./dev simulate --replay 7-8")
