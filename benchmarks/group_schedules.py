"""What came of simulated replicas of a group, schedule after schedule: kept by case, and drawn.

python -m benchmarks.group_schedules    draw results/group_schedules.md again
"""

import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from benchmarks.kept import KeptPage, page_head

TEXT = (
    "Two or three replicas, network, disks, clocks and register under one seed and a virtual clock."
    " A schedule has 150 events, most of them of its case; then all is mended, and the group has to"
    " serve again with equal logs. After each event the promises are checked: nothing acknowledged"
    " is lost, nothing that a consumer saw is gone, one master an epoch. Answers are sends with"
    " code 0, epochs how often a master was elected. Made by `./dev long`."
)
_COLUMNS = ("case", "schedules", "answers", "epochs", "violations", "CPU seconds")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """All schedules of one case."""

    case: str
    schedules: int
    answers: int
    epochs: int
    violations: int
    cpu_seconds: int

    @property
    def key(self) -> tuple[str]:
        """What it is the only one of."""
        return (self.case,)


def table(cases: Sequence[Case]) -> str:
    """Return the page."""
    lines = page_head("Simulated groups of replicas", TEXT, _COLUMNS)
    for one in cases:
        counts = one.schedules, one.answers, one.epochs, one.violations, one.cpu_seconds
        lines.append(f"| {one.case} | {' | '.join(f'{count:,}' for count in counts)} |")
    return "\n".join(lines) + "\n"


PAGE: Final = KeptPage("group_schedules", Case, table)

if __name__ == "__main__":
    PAGE.draw()
    sys.exit(0)
