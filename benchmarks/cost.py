"""What a side costs: CPU seconds and memory of every process that it started.

The processes of a side are told by a variable that it alone was started with and that its children
inherit, daemons in sessions of their own included.
"""

import os
from pathlib import Path
from typing import NamedTuple

MARK = "WAKELOG_BENCHMARK_SIDE"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Of all processes of a side since they started; PSS shares what is shared."""

    cpu_seconds: float
    broker_cpu_seconds: float
    pss_bytes: int
    process_count: int


def processes_of(mark: str) -> list[Path]:
    """Return the /proc folders of the processes that were started with this mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(folder)
            except OSError:
                continue
    return found


def cost_of(mark: str, *, is_broker: bytes) -> Cost:
    """Add up the processes of a side; those whose command line has ``is_broker`` also apart."""
    cpu_seconds = broker_cpu_seconds = 0.0
    pss_bytes = 0
    folders = processes_of(mark)
    for folder in folders:
        try:
            seconds = _cpu_seconds(folder)
            command = (folder / "cmdline").read_bytes()
            pss_bytes += _pss_bytes(folder)
        except (OSError, ProcessLookupError):
            continue
        cpu_seconds += seconds
        if is_broker in command:
            broker_cpu_seconds += seconds
    return Cost(cpu_seconds, broker_cpu_seconds, pss_bytes, len(folders))


def _cpu_seconds(folder: Path) -> float:
    # The command in parentheses may hold blanks; the fields behind it do not.
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    own_and_waited_for = fields[11:15]
    return sum(map(int, own_and_waited_for)) / TICKS_PER_SECOND


def _pss_bytes(folder: Path) -> int:
    for line in (folder / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0
