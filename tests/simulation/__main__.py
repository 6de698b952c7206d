"""`./dev simulate`: the long run, or one seed again.

    ./dev simulate --images 1000000     until so many distinct images were recovered and checked
    ./dev simulate --processes 1        on one core; else on all that this process may use
    ./dev simulate --seed 40000         the same from another seed on
    ./dev simulate --replay 123         one seed, with all of its violation's traceback
    ./dev simulate --replay 120-123     the last of these seeds after the ones before it

The result is printed as JSON. Each violation is printed with the line that replays it, and the run
goes on.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from tests.simulation.blocks import BLOCK_SEEDS, Merged, Progress, run_blocks, source
from tests.simulation.campaign import Found, case_of, run_case
from tests.simulation.trial import Tally

BAR_WIDTH = 24


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """One campaign.

    images: distinct ones; `images_by_generation` counts each where it came up first.
    attempts: draws of what a crash leaves; `checks` are those whose image was new, or known to
        clients that had been told something else.
    source: the digest of the code that ran, tests and all.
    """

    first_seed: int
    last_seed: int
    images: int
    images_by_generation: dict[str, int]
    attempts: int
    checks: int
    workloads: int
    violations: int
    cpu_seconds: int
    source: str


def main(arguments: Sequence[str]) -> int:
    """Run as asked; 1 for a violation."""
    parser = argparse.ArgumentParser(prog="./dev simulate", description="Crash a simulated disk.")
    parser.add_argument("--images", type=int, default=1_000_000, help="distinct images to check")
    parser.add_argument("--seed", type=int, default=0, help="where to begin")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--processes", type=int, default=cores, help="how many at once")
    parser.add_argument("--block", type=int, default=BLOCK_SEEDS, help="seeds run in one go")
    parser.add_argument("--replay", type=_seeds, help="run this seed alone, or FIRST-LAST")
    chosen = parser.parse_args(arguments)
    if chosen.replay is not None:
        return _replay(chosen.replay)
    merged = run_blocks(
        chosen.seed,
        chosen.images,
        block_seeds=max(1, chosen.block),
        processes_count=max(1, chosen.processes),
        report=progress_bar(chosen.images),
        report_violation=lambda found: print(f"\n{found}", flush=True),
    )
    campaign = _campaign(chosen.seed, merged)
    print(f"\n{msgspec.json.encode(campaign).decode()}")
    return 1 if merged.found else 0


def progress_bar(
    images_count: int, now: Callable[[], float] = time.monotonic
) -> Callable[[Progress], None]:
    """Return what draws the bar, with the rate since it was made and the time that is left."""
    began = now()

    def draw(progress: Progress) -> None:
        done = min(1.0, progress.images_count / images_count)
        rate = progress.images_count / max(1e-3, now() - began)
        left = max(0, images_count - progress.images_count) / rate if rate else 0.0
        bar = ("#" * round(done * BAR_WIDTH)).ljust(BAR_WIDTH, ".")
        minutes, seconds = divmod(round(left), 60)
        line = f"{bar} {done:6.1%} {progress.images_count:,} images, {rate:.0f}/s, "
        line += f"{minutes}:{seconds:02} left, seed {progress.last_seed}"
        print(f"\r{line:<79}", end="", file=sys.stderr, flush=True)

    return draw


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _replay(seeds: range) -> int:
    tally = Tally()
    for seed in seeds[:-1]:
        try:
            run_case(case_of(seed), tally)
        except Found:
            continue  # as the campaign did, which continues after it
    print(case_of(seeds[-1]))
    run_case(case_of(seeds[-1]), tally)
    print(f"nothing found in {tally.images_count} images")
    return 0


def _campaign(first_seed: int, merged: Merged) -> Campaign:
    generations = {str(number): count for number, count in sorted(merged.generations.items())}
    return Campaign(
        first_seed=first_seed,
        last_seed=merged.last_seed,
        images=merged.images_count,
        images_by_generation=generations,
        attempts=merged.attempts_count,
        checks=merged.checks_count,
        workloads=merged.workloads_count,
        violations=len(merged.found),
        cpu_seconds=round(merged.cpu_seconds),
        source=source(),
    )


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
