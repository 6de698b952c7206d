"""Runs in turns: pair by pair, because the machine's speed drifts.

A pair is one run of each side, one right after the other; the order changes with each pair. A pair
is void if a driver reported an error, a side failed, or the machine's clock was set. The reason is
kept, and another pair is run, up to a limit.
"""

import subprocess
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from benchmarks.load import Run
from benchmarks.rows import Figure
from benchmarks.sides import OWN_NAME
from tests.compat.processes import ProcessFailed

VOID_MAX = 3
"""More void pairs than this in a row of the table are a fault to look for, not bad luck."""

CLOCK_STEP_SECONDS_MAX = 0.1
"""A clock set further than this spoils figures: when dispatch began is read from a log."""

RUN_FAILURES = (ProcessFailed, RuntimeError, OSError, subprocess.SubprocessError)

Pair = dict[str, Run]
RunSide = Callable[[str], tuple[Run, Mapping[str, object]]]
"""Measures one side once; returns its figures and its configuration."""


class Measured(NamedTuple):
    """The sound pairs of a row, why others were void, and what each side was started with."""

    pairs: list[Pair]
    voids: list[str]
    configurations: dict[str, Mapping[str, object]]


def measure(
    figure: Figure,
    run_side: RunSide,
    pairs_count: int,
    say: Callable[[str], None],
    *,
    other_name: str,
) -> Measured:
    """Run pairs until ``pairs_count`` are sound, or more than VOID_MAX were void.

    figure: what is said of each run.
    other_name: the side that OWN_NAME is compared with.
    """
    names = (OWN_NAME, other_name)
    measured = Measured([], [], {})
    while len(measured.pairs) < pairs_count and len(measured.voids) <= VOID_MAX:
        begun_count = len(measured.pairs) + len(measured.voids)
        order = names if begun_count % 2 == 0 else names[::-1]
        title = f"pair {len(measured.pairs) + 1} of {pairs_count}"
        pair: Pair = {}
        try:
            for name in order:
                began_seconds, clock_seconds = time.monotonic(), time.time()
                run, measured.configurations[name] = run_side(name)
                if run["errors"]:
                    raise RuntimeError(f"{run['errors']} client errors")
                pair[name] = run | {"turn": len(pair) + 1}
                seconds = time.monotonic() - began_seconds
                step_seconds = time.time() - clock_seconds - seconds
                if abs(step_seconds) > CLOCK_STEP_SECONDS_MAX:
                    raise RuntimeError(f"the clock was set by {step_seconds:+.1f} s meanwhile")
                say(f"{title}, {name}: {figure.unit} {run[figure.name]:.5g}, took {seconds:.0f} s")
        except RUN_FAILURES as failure:
            measured.voids.append(f"{name}: {failure}")
            say(f"{title} is void, {measured.voids[-1]}")
        else:
            measured.pairs.append(pair)
    return measured
