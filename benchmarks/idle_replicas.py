"""What replicas cost while nobody sends, above as many brokers that know nothing of each other.

python -m benchmarks.idle_replicas    draw results/idle_replicas.md again
"""

import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from benchmarks.kept import KeptPage, page_head

TEXT: Final = (
    "Brokers of one process (`up --local`) with empty stores and without a client. CPU is what the"
    " kernel says that its threads ran, in per cent of a core. Alone are as many brokers of names"
    " of their own. A slave asks for tables every 10 s. A replica of a group does so more often,"
    " and asks the register as well. Lines are those that were logged in that time. Made by"
    " `./dev long`."
)
_COLUMNS: Final = ("brokers", "alone, %", "together, %", "more, %", "lines", "seconds")


class IdleReplicas(msgspec.Struct, frozen=True, kw_only=True):
    """Some brokers, alone and together."""

    name: str
    alone_percent: float
    together_percent: float
    lines: int
    seconds: int

    @property
    def key(self) -> tuple[str]:
        """What it is the only one of."""
        return (self.name,)

    @property
    def more_percent(self) -> float:
        """What it takes that they know each other."""
        return self.together_percent - self.alone_percent


def table(measured: Sequence[IdleReplicas]) -> str:
    """Return the page."""
    lines = page_head("Idle replicas", TEXT, _COLUMNS)
    for one in measured:
        percents = one.alone_percent, one.together_percent, one.more_percent
        cells = [one.name, *(f"{percent:.2f}" for percent in percents)]
        lines.append(f"| {' | '.join([*cells, str(one.lines), str(one.seconds)])} |")
    return "\n".join(lines) + "\n"


PAGE: Final = KeptPage("idle_replicas", IdleReplicas, table)

if __name__ == "__main__":
    PAGE.draw()
    sys.exit(0)
