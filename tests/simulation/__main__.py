"""`./dev simulate`: the long run, or one seed again.

    ./dev simulate --images 1000000     until so many distinct images were recovered and checked
    ./dev simulate --seed 40000         the same from another seed on
    ./dev simulate --replay 123         one seed, with all of its violation's traceback

The result of a run goes to benchmarks/results/simulation.json, unless `--no-result` is given.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.simulation.campaign import Found, case_of, run_campaign, run_case
from tests.simulation.trial import Tally

RESULT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "simulation.json"


def main(arguments: Sequence[str]) -> int:
    """Run as asked; 1 for a violation."""
    parser = argparse.ArgumentParser(prog="./dev simulate", description="Crash a simulated disk.")
    parser.add_argument("--images", type=int, default=1_000_000, help="distinct images to check")
    parser.add_argument("--seed", type=int, default=0, help="where to begin")
    parser.add_argument("--replay", type=int, help="run this seed alone")
    parser.add_argument("--no-result", action="store_true", help="write no result file")
    chosen = parser.parse_args(arguments)
    if chosen.replay is not None:
        return _replay(chosen.replay)
    return _run(chosen.seed, chosen.images, keep=not chosen.no_result)


def _replay(seed: int) -> int:
    print(case_of(seed))
    tally = Tally()
    run_case(case_of(seed), tally)
    print(f"nothing found in {tally.images_count} images")
    return 0


def _run(begin: int, images_count: int, *, keep: bool) -> int:
    tally = Tally()
    began = time.monotonic()

    def report(tally: Tally, seed: int) -> None:
        done = min(1.0, tally.images_count / images_count)
        rate = tally.images_count / (time.monotonic() - began)
        line = f"{tally.images_count:>9} images {done:6.1%}  {rate:6.0f}/s  seed {seed}"
        print(f"\r{line}", end="", file=sys.stderr, flush=True)

    try:
        last = run_campaign(itertools.count(begin), images_count, tally, report)
    except Found as found:
        print(f"\n{found}")
        return 1
    seconds = time.monotonic() - began
    result = {
        "images": tally.images_count,
        "images_by_generation": {str(n): count for n, count in sorted(tally.generations.items())},
        "attempts": tally.attempts_count,
        "checks": tally.checks_count,
        "workloads": tally.workloads_count,
        "first_seed": begin,
        "last_seed": last,
        "seconds": round(seconds),
        "violations": 0,
    }
    print(f"\n{json.dumps(result)}")
    if keep:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
