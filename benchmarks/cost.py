"""What a side costs: CPU seconds and memory of every process that it started.

The processes of a side are told by a variable that it alone was started with and that its children
inherit, daemons in sessions of their own included. CPU is what the kernel counts for a whole
process, threads that have ended included; memory is of now.

    pss            of all processes; shares what is shared, and has the store's files where a
                   process maps them, which the kernel may drop at any time
    memory         anonymous pages and shared memory: what the kernel may not drop
    shared memory  files in a memory file system that the side has open or mapped, each once
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

MARK = "WAKELOG_BENCHMARK_SIDE"
SLAVE_MARK = "WAKELOG_BENCHMARK_SLAVE"
"""Which the processes of a side's slave have besides."""

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
BLOCK_BYTES = 512
SHARED_MEMORY = Path("/dev/shm")

# The first that a command line has; the raylet's holds those of the agents.
ROLES = {
    "gcs_server ": "GCS",
    "raylet/raylet ": "raylet",
    "agent_stubs": "agent of runtime environments, stood in for",
    "cat ": "dashboard agent, stood in for",
    "actors.ray.head": "head, worker template",
    "wakelog head": "head, worker template",
    "wakelog up": "wakelog up",
    "wakelog log": "wakelog log",
    "benchmarks.idle": "driver",
    "BrokerStartup": "JVM broker",
    "NamesrvStartup": "JVM name server",
}


class Cost(NamedTuple):
    """Of all processes of a side since they started."""

    cpu_by_role: Mapping[str, float]
    broker_cpu_seconds: float
    pss_bytes: int
    memory_bytes: int
    shared_memory_bytes: int

    @property
    def cpu_seconds(self) -> float:
        """Of all of them together."""
        return sum(self.cpu_by_role.values())


def role_of(command: str) -> str:
    """Return what a process is called in a table."""
    if command.startswith("ray::"):
        # "ReputService", "ReputService.attach" in a call, "name:ReputService.__init__" at first.
        return command.removeprefix("ray::").strip().rpartition(":")[2].partition(".")[0]
    return next((role for part, role in ROLES.items() if part in command), command[:40])


def processes_of(mark: str, variable: str = MARK) -> list[Path]:
    """Return the /proc folders of the processes that were started with this mark."""
    wanted = f"{variable}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(folder)
            except OSError:
                continue
    return found


def cost_of(mark: str, *, is_broker: str, variable: str = MARK) -> Cost:
    """Add up the processes of a side; those whose command line has ``is_broker`` also apart."""
    cpu_by_role: dict[str, float] = {}
    broker_cpu_seconds = 0.0
    pss_bytes = unshared_bytes = 0
    shared_files: dict[tuple[int, int], int] = {}
    for folder in processes_of(mark, variable):
        try:
            seconds = cpu_seconds_of(folder)
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            memory = _memory_of(folder)
            shared_files |= _shared_files(folder)
        except (OSError, ProcessLookupError):
            continue
        role = role_of(command)
        cpu_by_role[role] = cpu_by_role.get(role, 0.0) + seconds
        broker_cpu_seconds += seconds if is_broker in command else 0.0
        pss_bytes += memory["Pss"]
        unshared_bytes += memory["Pss_Anon"]
    shared_bytes = sum(shared_files.values())
    return Cost(
        cpu_by_role, broker_cpu_seconds, pss_bytes, unshared_bytes + shared_bytes, shared_bytes
    )


def cpu_seconds_of(folder: Path) -> float:
    """Return what a process and its ended children used, threads that ended included."""
    # The command in parentheses may hold blanks; the fields behind it do not.
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    own_and_waited_for = fields[11:15]
    return sum(map(int, own_and_waited_for)) / TICKS_PER_SECOND


def _memory_of(folder: Path) -> dict[str, int]:
    lines = (folder / "smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}


def _shared_files(folder: Path) -> dict[tuple[int, int], int]:
    """Return what the files in shared memory that a process has open or mapped take, by inode."""
    device = SHARED_MEMORY.stat().st_dev
    paths = [*(folder / "fd").iterdir()]
    mapped = {line.split()[-1] for line in (folder / "maps").read_text().splitlines()}
    paths += [Path(name) for name in mapped if name.startswith(f"{SHARED_MEMORY}/")]
    found = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        if status.st_dev == device:
            found[status.st_dev, status.st_ino] = status.st_blocks * BLOCK_BYTES
    return found
