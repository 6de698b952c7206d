"""What became of transactions while processes were killed: kept and drawn.

python -m benchmarks.transactions    draw results/transactions.md again
"""

import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from benchmarks.kept import KeptPage

TEXT = (
    "Two producers send half messages to one broker of actors, synchronous flush. A third of the"
    " transactions commits at once, a third rolls back, and a third stays open until the broker"
    " asks a producer. All the while the Broker, TransactionCheck and a producer are killed in"
    " turn, every few seconds. Unclear are half messages that got no answer: each may be there or"
    " not. At the end all are ended. Lost are committed ones that consumers do not find, twice is"
    " what they find again, and wrong what they find although it was rolled back. Made by"
    " `./dev long`."
)


class Soak(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    transactions: acknowledged half messages, all ended as `committed` or `rolled_back`.
    asked: questions that a producer answered.
    """

    transactions: int
    committed: int
    rolled_back: int
    asked: int
    unclear: int
    lost: int
    doubled: int
    wrong: int
    kills: dict[str, int]
    seconds: int
    load_average: float

    @property
    def key(self) -> tuple[str]:
        """There is one of them."""
        return ("soak",)


def table(soaks: Sequence[Soak]) -> str:
    """Return the page."""
    lines = ["# Transactions under kills", "", TEXT]
    for soak in soaks:
        kills = ", ".join(f"{role} {times}" for role, times in sorted(soak.kills.items()))
        rows = {
            "transactions": soak.transactions,
            "committed": soak.committed,
            "rolled back": soak.rolled_back,
            "questions answered": soak.asked,
            "unclear": soak.unclear,
            "lost": soak.lost,
            "twice": soak.doubled,
            "wrong": soak.wrong,
            "kills": kills,
            "seconds": soak.seconds,
            "load average": soak.load_average,
        }
        lines += ["", "| | |", "| --- | ---: |"]
        lines += [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(lines) + "\n"


PAGE: Final = KeptPage("transactions", Soak, table)

if __name__ == "__main__":
    PAGE.draw()
    sys.exit(0)
