"""What a process of this node does, seen from outside: it computes, waits for the disk, or nothing.

A process that does not answer may be busy: a large store is recovered, or the machine is slow. It
may have been stopped by a signal, and will go on. Or it waits for something that never comes.

Source: proc(5), `/proc/PID/stat` and `/proc/PID/task/TID/stat`.
"""

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

BUSY_SHARE_MIN: Final = 0.1
"""Of one CPU. The threads that Ray has in every actor take some 0.01 while its own thread hangs."""

_TICK_SECONDS: Final = 1 / os.sysconf("SC_CLK_TCK")
_STOPPED: Final = frozenset("Tt")
_WAITS_FOR_DISK: Final = "D"


class Sample(NamedTuple):
    """One look at a process: when, the CPU time so far, and the states of its threads."""

    at_seconds: float
    cpu_seconds: float
    states: frozenset[str]


def read_sample(process_id: int) -> Sample | None:
    """Look at a process; None if there is none."""
    try:
        cpu_seconds, _ = _read(Path(f"/proc/{process_id}/stat"))
        threads = list(Path(f"/proc/{process_id}/task").iterdir())
    except OSError:
        return None
    states = set()
    for thread in threads:
        try:
            states.add(_read(thread / "stat")[1])
        except OSError:
            continue  # it has ended
    return Sample(time.monotonic(), cpu_seconds, frozenset(states))


def activity(before: Sample, after: Sample) -> str | None:
    """Say what a process did between two looks; None if it made no progress."""
    if after.states & _STOPPED:
        return "stopped by a signal"
    passed_seconds = max(after.at_seconds - before.at_seconds, _TICK_SECONDS)
    share = (after.cpu_seconds - before.cpu_seconds) / passed_seconds
    if share >= BUSY_SHARE_MIN:
        return f"computing, {share:.0%} of a CPU"
    if _WAITS_FOR_DISK in after.states:
        return "waiting for the disk"
    return None


def _read(path: Path) -> tuple[float, str]:
    # The name of the program stands in parentheses, and may have spaces and parentheses itself.
    fields = path.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_SECONDS, fields[0]
