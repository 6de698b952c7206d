"""What the long runs did to a broker's processes, and what came of it: kept, merged and drawn.

    python -m benchmarks.kills    draw results/kills.md again from results/kills.json

Each incident is one process killed, or stopped for a while, under load. `./dev long` notes them one
by one, so a run may be made role by role; an incident that is repeated takes the place of the older
one.
"""

import math
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks import storms
from benchmarks.kept import RESULTS, keep, read_kept

JSON_NAME = "kills.json"
TABLE_NAME = "kills.md"


class Case(NamedTuple):
    """One kind of incident: how the table calls it, and what is done."""

    title: str
    text: str


CASES = {
    "kill": Case(
        "Killed",
        "SIGKILL at a seeded random moment under load. One that is killed again within a second of"
        " its return, as most are here, is attached again a second later, and else after 0.3 s.",
    ),
    "stop": Case(
        "Stopped for 10 s",
        "SIGSTOP, and SIGCONT 10 s later; counted from the stop.",
    ),
    "creation": Case(
        "Killed while making a file",
        "SIGKILL between a file's first appearance, under an unfinished name, and its last. Half"
        " made are those that the dead process left under that name. Once in ten kills, every"
        " process was stopped while the store was copied. That counts as a stall and has no limit."
        " A real 4.9.3 broker opened the copy and served all that had been acknowledged.",
    ),
    "long log, warm": Case(
        "Broker of a log of 1 GiB killed",
        "Bodies of 1 KiB, the log in the page cache. Stall is how long clients could not send.",
    ),
    "long log, cold": Case(
        "Broker of a log of 1 GiB killed, cold",
        "The same with no page of the store in the page cache when the Broker died.",
    ),
}


class Incident(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process killed or stopped.

    stall_ms: the longest time without any acknowledged send from then on.
    back_ms: until its role was filled again; of a Broker, until sends were acknowledged again.
    noticed_ms: until whoever depends on it knew.
    load_average: of the machine's last minute, which may have had other things to do.
    half_made: whether it left a file half made; only where that was aimed at.
    """

    case: str
    role: str
    transport: str
    number: int
    stall_ms: int
    back_ms: int
    lost: int
    doubled: int
    acknowledged: int
    load_average: float
    noticed_ms: int | None = None
    half_made: bool | None = None

    @property
    def key(self) -> tuple[int, str, str, int]:
        """What it is the only one of, in the table's order."""
        return [*CASES].index(self.case), self.role, self.transport, self.number


def read(folder: Path = RESULTS) -> list[Incident]:
    """Return what is kept, in order."""
    return read_kept(folder / JSON_NAME, Incident)


def note(incident: Incident, folder: Path = RESULTS) -> None:
    """Keep an incident instead of the one of the same name, and draw the table anew."""
    keep(folder / JSON_NAME, incident)
    draw(folder)


def note_storm(storm: storms.Storm, folder: Path = RESULTS) -> None:
    """Keep a storm instead of the one of the same name, and draw the table anew."""
    keep(folder / storms.JSON_NAME, storm)
    draw(folder)


def draw(folder: Path = RESULTS) -> None:
    """Draw the page from what is kept."""
    (folder / TABLE_NAME).write_text(table(read(folder), storms.read(folder)))


def percentile(values: Iterable[float], percent: float) -> float:
    """Return the smallest value that so many per cent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def table(incidents: Sequence[Incident], passed: Sequence[storms.Storm] = ()) -> str:
    """Return the page."""
    lines = [
        "# Processes killed and stopped under load",
        "",
        "Four clients send to one broker of actors without a pause while a process of it is killed"
        " or stopped. Notifications: synchronous flush. References: asynchronous flush with the"
        " transient pool. Times in milliseconds. Made by `./dev long`; each incident is in"
        f" [{JSON_NAME}]({JSON_NAME}).",
    ]
    lines += ["", "## Kills of each role", "", *totals(incidents, passed)]
    for case, of_case in groupby(incidents, key=lambda one: one.case):
        lines += ["", f"## {CASES[case].title}", "", CASES[case].text, "", *_rows([*of_case])]
    lines += storms.sections(passed)
    return "\n".join(lines) + "\n"


def totals(incidents: Sequence[Incident], passed: Sequence[storms.Storm]) -> list[str]:
    """Return the table of how often each role was killed."""
    in_storms = storms.kills_by_role(passed)
    alone = [one for one in incidents if one.case == "kill"]
    aimed = [one for one in incidents if one.case == "creation"]
    lines = [
        "| role | killed alone | while making a file | in storms | in all | lost | twice |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for role in sorted({one.role for one in alone} | {*in_storms}):
        counts = [sum(one.role == role for one in some) for some in (alone, aimed)]
        counts.append(sum(map(len, in_storms.get(role, {}).values())))
        own = [one for one in (*alone, *aimed) if one.role == role]
        lost = sum(one.lost for one in own) + sum(one.lost for one in passed)
        doubled = sum(one.doubled for one in own) + sum(one.doubled for one in passed)
        cells = (role, *counts, sum(counts), lost, doubled)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


_COLUMNS = (
    "role",
    "transport",
    "times",
    "noticed p95",
    "stall p95",
    "stall max",
    "back p50",
    "back p95",
    "back max",
    "acknowledged",
    "lost",
    "twice",
    "half made",
    "load max",
)


def _rows(incidents: Sequence[Incident]) -> list[str]:
    yields = [" | ".join(_COLUMNS), " | ".join(["---", "---", *["---:"] * (len(_COLUMNS) - 2)])]
    for (role, transport), some in groupby(incidents, key=lambda one: (one.role, one.transport)):
        yields.append(" | ".join([role, transport, *_cells([*some])]))
    return [f"| {line} |" for line in yields]


def _cells(some: Sequence[Incident]) -> list[str]:
    noticed = [one.noticed_ms for one in some if one.noticed_ms is not None]
    stalls = [one.stall_ms for one in some]
    backs = [one.back_ms for one in some]
    half_made = [one.half_made for one in some if one.half_made is not None]
    return [
        str(len(some)),
        f"{percentile(noticed, 95):.0f}" if noticed else "-",
        f"{percentile(stalls, 95):.0f}",
        str(max(stalls)),
        f"{percentile(backs, 50):.0f}",
        f"{percentile(backs, 95):.0f}",
        str(max(backs)),
        str(sum(one.acknowledged for one in some)),
        str(sum(one.lost for one in some)),
        str(sum(one.doubled for one in some)),
        str(sum(half_made)) if half_made else "-",
        f"{max(one.load_average for one in some):.1f}",
    ]


if __name__ == "__main__":
    draw()
    sys.exit(0)
