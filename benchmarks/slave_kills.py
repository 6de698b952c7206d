"""What became of masters and slaves that were killed, and of long logs: kept and drawn.

python -m benchmarks.slave_kills    draw results/slave_kills.md again
"""

import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from benchmarks.kept import KeptPage, page_head

TEXT: Final = (
    "A master and one slave on one machine, with segments of 1 MiB unless another length is said."
    " In the first row SIGKILL met both, each at seeded random moments of its own; messages are"
    " sends that were acknowledged. In the others messages were sent in batches, and the slave was"
    " killed. At the end both logs have to be equal, byte for byte, and the slave has to serve all"
    " messages, each once. Made by `./dev long`."
)
_COLUMNS: Final = ("what", "kills", "messages", "rolls", "lost", "seconds")


class SlaveKills(msgspec.Struct, frozen=True, kw_only=True):
    """One run. messages: that have to be there. rolls: of the master's log."""

    name: str
    kills: int
    messages: int
    rolls: int
    lost: int
    seconds: int

    @property
    def key(self) -> tuple[str]:
        """What it is the only one of."""
        return (self.name,)


def table(runs: Sequence[SlaveKills]) -> str:
    """Return the page."""
    lines = page_head("Killed masters and slaves", TEXT, _COLUMNS)
    for one in runs:
        counts = one.kills, one.messages, one.rolls, one.lost, one.seconds
        lines.append(f"| {one.name} | {' | '.join(f'{count:,}' for count in counts)} |")
    return "\n".join(lines) + "\n"


PAGE: Final = KeptPage("slave_kills", SlaveKills, table)

if __name__ == "__main__":
    PAGE.draw()
    sys.exit(0)
