"""What campaigns on the simulated disk came to: kept, and drawn.

    python -m benchmarks.simulation    draw results/simulation.md again from results/simulation.json

A campaign crashes the store's simulated disk over and over (`./dev simulate`); the one that begins
with the same seed takes the place of the older.
"""

import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from benchmarks.kept import KeptPage

TEXT = (
    "Workloads are run on a simulated disk, and at each operation the disk is left as a crash may"
    " leave it there. Each image is recovered, dispatched and checked: what was acknowledged is"
    " there, nothing else is, queues and index are what the log gives. Images that came up again"
    " are not counted; those of the second generation are crashes of a recovery and of what was"
    " done behind it. Checks are more than images, as clients may have been told different things"
    " with the same image. Made by `./dev simulate`, kept in [simulation.json](simulation.json)."
)

_COLUMNS = (
    "seeds",
    "images",
    "of them second generation",
    "attempts",
    "checks",
    "violations",
    "CPU hours",
    "images per CPU second",
)


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

    @property
    def key(self) -> tuple[int]:
        """What it is the only one of."""
        return (self.first_seed,)


def table(campaigns: Sequence[Campaign]) -> str:
    """Return the page."""
    lines = ["# Crashes of a simulated disk", "", TEXT, ""]
    lines.append(f"| {' | '.join(_COLUMNS)} |")
    lines.append("|" + " ---: |" * len(_COLUMNS))
    lines += [f"| {' | '.join(_cells(campaign))} |" for campaign in campaigns]
    return "\n".join(lines) + "\n"


def _cells(campaign: Campaign) -> list[str]:
    return [
        f"{campaign.first_seed} to {campaign.last_seed}",
        f"{campaign.images:,}",
        f"{campaign.images_by_generation.get('2', 0):,}",
        f"{campaign.attempts:,}",
        f"{campaign.checks:,}",
        str(campaign.violations),
        f"{campaign.cpu_seconds / 3600:.1f}",
        f"{campaign.images / max(1, campaign.cpu_seconds):.0f}",
    ]


PAGE: Final = KeptPage("simulation", Campaign, table)

if __name__ == "__main__":
    PAGE.draw()
    sys.exit(0)
