"""What storms of kills did to a broker's processes, and what came of it: kept and drawn.

In a storm every process of one broker is killed again and again, at moments of its own. Several die
at once, and some while they come back. The load goes on. Nothing is timed against a limit here,
which is for processes killed alone (`kills.py`, on whose page this is drawn).
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from benchmarks.kept import read_kept

JSON_NAME = "storms.json"

TEXT = (
    "Every process of one broker is killed again and again: at seeded random moments of its own,"
    " at the same instant as others, and again as soon as it answers. The Broker dies as well once"
    " each of the others has died three times, now and then in a recovery. Four clients send, one"
    " sends delayed messages, four wait for what comes next. Back is the time until another process"
    " fills the role; whole the time from the last kill until every process is there and sends"
    " are acknowledged. Late messages are delayed ones that were acknowledged and never came."
    " Changed is what a consumer had been given and was not there, or was another message, at the"
    " end. Afterwards queues and index equal a rebuild from the log."
)


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """One storm over one broker.

    mode: how durable its answers are.
    back_ms: of each kill, by role.
    whole_ms: from the last kill until everybody was there again.
    acknowledged: sends; `late_lost` are delayed ones that never came, `changed` what a consumer was
        given and was not there at the end.
    load_average: of the machine's last minute, which may have had other things to do.
    """

    mode: str
    number: int
    back_ms: dict[str, tuple[int, ...]]
    whole_ms: int
    seconds: float
    acknowledged: int
    lost: int
    doubled: int
    late_lost: int
    changed: int
    load_average: float

    @property
    def key(self) -> tuple[str, int]:
        """What it is the only one of."""
        return self.mode, self.number

    @property
    def kills_count(self) -> int:
        """How many processes it killed."""
        return sum(map(len, self.back_ms.values()))


def read(folder: Path) -> list[Storm]:
    """Return what is kept, in order."""
    return read_kept(folder / JSON_NAME, Storm)


def kills_by_role(storms: Iterable[Storm]) -> dict[str, dict[str, list[int]]]:
    """Return after how many ms each role was back, by role and mode."""
    found: dict[str, dict[str, list[int]]] = {}
    for storm in storms:
        for role, times in storm.back_ms.items():
            found.setdefault(role, {}).setdefault(storm.mode, []).extend(times)
    return dict(sorted(found.items()))


def sections(storms: Sequence[Storm]) -> list[str]:
    """Return the lines of the page; none without storms."""
    if not storms:
        return []
    lines = ["", "## Storms", "", TEXT, ""]
    lines.append(
        "| mode | storms | kills | seconds | whole max | acknowledged | lost | twice"
        " | late | changed | load max |"
    )
    lines.append("| --- | " + " | ".join(["---:"] * 10) + " |")
    for mode, some in groupby(storms, key=lambda one: one.mode):
        lines.append(_row(mode, _sums([*some])))
    modes = sorted({storm.mode for storm in storms})
    lines += ["", "| role | " + " | ".join(modes) + " | kills | back p50 | back p95 | back max |"]
    lines.append("| --- | " + " | ".join(["---:"] * (len(modes) + 4)) + " |")
    for role, by_mode in kills_by_role(storms).items():
        counts = [str(len(by_mode.get(mode, ()))) for mode in modes]
        times = sorted(time for some in by_mode.values() for time in some)
        at = [times[(len(times) - 1) * percent // 100] for percent in (50, 95, 100)]
        lines.append(_row(role, [*counts, str(len(times)), *map(str, at)]))
    return lines


def _sums(some: Sequence[Storm]) -> list[str]:
    return [
        str(len(some)),
        str(sum(one.kills_count for one in some)),
        f"{sum(one.seconds for one in some):.0f}",
        str(max(one.whole_ms for one in some)),
        str(sum(one.acknowledged for one in some)),
        str(sum(one.lost for one in some)),
        str(sum(one.doubled for one in some)),
        str(sum(one.late_lost for one in some)),
        str(sum(one.changed for one in some)),
        f"{max(one.load_average for one in some):.1f}",
    ]


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"
