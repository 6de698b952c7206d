"""What became of groups of replicas whose masters were killed, stopped and cut off: kept and drawn.

python -m benchmarks.failovers    draw results/failovers.md again
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from benchmarks.kept import KeptPage, page_head
from benchmarks.kills import percentile


class Fault(NamedTuple):
    """One kind of fault. ends_master: whether another replica has to lead for sends to go on."""

    text: str
    ends_master: bool = False


FAULTS: Final[Mapping[str, Fault]] = {
    "kill": Fault("SIGKILL to the master", ends_master=True),
    "hold": Fault("SIGSTOP to the master", ends_master=True),
    "alone": Fault("the master cut off from followers and register", ends_master=True),
    "pair": Fault("one pair of the three replicas cut apart"),
    "register": Fault("the master cut off from the register alone"),
    "followers": Fault("the master cut off from both followers alone, for up to 8 s"),
    "silent": Fault("the same, with nothing carried and nothing closed"),
}

TEXT: Final = (
    "Three brokers of one group on one machine, with the real times of an election, and three"
    " members of etcd. Python and Java producers send all the time, and consumers of both read."
    " Faults come one after the other, in a seeded order. Each begins with all replicas in sync and"
    " all clients sending. Back is the time from a fault to the 20th acknowledgement after it, in"
    " milliseconds, while the fault lasts. A master without followers may take no sends: its time"
    " is from the end of the fault. Java's clients ask for routes every 5 s here, 30 s by default."
    " At the end every replica has to have all that was acknowledged, and what was shown at the"
    " offset where it was shown. The three logs have to be equal. No two replicas may have led in"
    " one epoch. Made by `./dev long`."
)

_COLUMNS: Final = (
    "fault",
    "times",
    "back p50",
    "back p99",
    "back max",
    "Java p50",
    "Java p99",
    "Java max",
)


class Back(msgspec.Struct, frozen=True, kw_only=True):
    """After one fault: until the Python and the Java producer had their acknowledgements."""

    fault: str
    python_ms: int
    java_ms: int


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """One run, from a clean state. number: another one has other faults.

    shown: messages that consumers got. gone: those that were not there at the end, or changed.
    epochs: how often a master was elected. led_twice: epochs in which two replicas led.
    """

    number: int
    backs: tuple[Back, ...]
    acknowledged: int
    java_acknowledged: int
    shown: int
    java_shown: int
    lost: int
    gone: int
    epochs: int
    led_twice: int
    seconds: int
    load_average: float

    @property
    def key(self) -> tuple[int]:
        """A run takes the place of the one before."""
        return (self.number,)

    def back_ms(self, percent: float, *, java: bool) -> float:
        """Return the time within which sends were back after so many per cent of what ended a
        master."""
        ended = [one for one in self.backs if FAULTS[one.fault].ends_master]
        return percentile([one.java_ms if java else one.python_ms for one in ended], percent)


def table(runs: Sequence[Faults]) -> str:
    """Return the page."""
    backs = [back for run in runs for back in run.backs]
    lines = page_head("Failovers under load", TEXT, _COLUMNS)
    for name, fault in FAULTS.items():
        lines += _rows(fault.text, [one for one in backs if one.fault == name])
    enders = [one for one in backs if FAULTS[one.fault].ends_master]
    lines += _rows("**all that end a master**", enders)
    lines += _rows("**all**", backs)
    for run in runs:
        lines += ["", _sums(run)]
    return "\n".join(lines) + "\n"


def _sums(run: Faults) -> str:
    return (
        f"Run {run.number}: {len(run.backs)} faults. Acknowledged: {run.acknowledged:,} to Python,"
        f" {run.java_acknowledged:,} to Java, of which {run.lost} were lost. Shown: {run.shown:,}"
        f" and {run.java_shown:,}, of which {run.gone} were gone. Epochs: {run.epochs}, of which"
        f" {run.led_twice} had two masters. {run.seconds:,} s, load average {run.load_average}."
    )


def _rows(name: str, backs: Sequence[Back]) -> list[str]:
    if not backs:
        return []
    cells = [name, str(len(backs))]
    for times in ([one.python_ms for one in backs], [one.java_ms for one in backs]):
        cells += [f"{percentile(times, percent):.0f}" for percent in (50, 99, 100)]
    return [f"| {' | '.join(cells)} |"]


PAGE: Final = KeptPage("failovers", Faults, table)

if __name__ == "__main__":
    PAGE.draw()
    sys.exit(0)
