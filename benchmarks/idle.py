"""What a start and an idle broker cost, process by process, beside the same Ray with empty actors.

    python -m benchmarks.idle [--seconds 60] [--output benchmarks/results/idle.md]

CPU is counted in what the kernel says that each thread ran, which other work on the machine hardly
changes; wall time it does. Wake-ups are voluntary context switches. The empty actors have the
options of ours and are as many; what their Ray takes is Ray's. The row ``idle`` of the comparison
is measured here too.
"""

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.cost import MARK, processes_of, role_of
from benchmarks.load import Run, memory
from benchmarks.sides import Side, Wakelog
from tests.compat.processes import free_port

ROW_SECONDS = 30.0
"""How long a row's run watches: three times the period of what a broker does every 10 s."""

SETTLE_SECONDS = 10.0
"""After ready: statistics, first registrations and the checkpoint are over then."""

ACTORS_COUNT = 10
READY = "ready"
NANOSECONDS = 1e9
MIB = 1 << 20


class Use(NamedTuple):
    """What one process, or several of one role, used."""

    cpu_seconds: float = 0.0
    wake_ups: int = 0
    pss_bytes: int = 0
    threads: int = 0
    processes: int = 0

    def plus(self, other: "Use") -> "Use":
        """Add up two."""
        return Use(
            self.cpu_seconds + other.cpu_seconds,
            self.wake_ups + other.wake_ups,
            self.pss_bytes + other.pss_bytes,
            self.threads + other.threads,
            self.processes + other.processes,
        )

    def since(self, earlier: "Use") -> "Use":
        """Return what was used since a reading; memory and threads are those of now."""
        spent = self.cpu_seconds - earlier.cpu_seconds
        return self._replace(cpu_seconds=spent, wake_ups=self.wake_ups - earlier.wake_ups)


def read_use(mark: str) -> dict[str, Use]:
    """Return what the processes of a side used since each began, by role."""
    found: dict[str, Use] = {}
    for folder in processes_of(mark):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            role = role_of(command)
            found[role] = found.get(role, Use()).plus(use_of(folder))
        except (OSError, ProcessLookupError):
            continue
    return found


def use_of(folder: Path) -> Use:
    """Read one process of /proc. Raises: OSError if it has ended."""
    nanoseconds = wake_ups = threads = 0
    for task in (folder / "task").iterdir():
        nanoseconds += int((task / "schedstat").read_text().split()[0])
        wake_ups += field(task / "status", "voluntary_ctxt_switches")
        threads += 1
    pss_bytes = field(folder / "smaps_rollup", "Pss") * 1024
    return Use(nanoseconds / NANOSECONDS, wake_ups, pss_bytes, threads, 1)


def field(path: Path, name: str) -> int:
    """Return a number from a file of lines ``name: number``."""
    lines = path.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


class Measured(NamedTuple):
    """One side: when it was ready, what it had used then, and what it uses when idle."""

    ready_seconds: float
    start: dict[str, Use]
    idle: dict[str, Use]


def measure(command: Sequence[str], seconds: float) -> Measured:
    """Start a side, wait until it says that it is ready, let it settle, watch it, stop it."""
    mark = uuid.uuid4().hex
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, MARK: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            while READY not in (line := process.stdout.readline()):
                assert line, "ended before it was ready"
            ready_seconds = time.monotonic() - began
            start = read_use(mark)
            time.sleep(SETTLE_SECONDS)
            before = read_use(mark)
            time.sleep(seconds)
            after = read_use(mark)
        finally:
            process.send_signal(signal.SIGTERM)
    idle = {role: use.since(before.get(role, Use())) for role, use in after.items()}
    return Measured(ready_seconds, start, idle)


def host_empty() -> None:
    """Run a Ray with empty actors until standard input or this process ends."""
    import ray

    from wakelog.actors.ray.options import options_at
    from wakelog.actors.ray.private_ray import RayCluster, leave

    class Empty:
        async def ping(self) -> int:
            return os.getpid()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    cluster = RayCluster(worker_count=ACTORS_COUNT)
    try:
        cluster.wait_ready()
        cluster.connect()
        make: Any = ray.remote(Empty)
        names = [f"empty-{number}" for number in range(ACTORS_COUNT)]
        actors = [make.options(name=one, **options_at()).remote() for one in names]
        ray.get([actor.ping.remote() for actor in actors])
        print(READY, flush=True)
        sys.stdin.read()
    finally:
        leave()
        cluster.stop()


def measure_idle(side: Side) -> Run:
    """Watch a side that was just started; wakelog also beside the same Ray with empty actors."""
    ready = side.cost()
    time.sleep(SETTLE_SECONDS)
    before = side.cost()
    time.sleep(ROW_SECONDS)
    after = side.cost()
    percent = 100 * (after.cpu_seconds - before.cpu_seconds) / ROW_SECONDS
    run: Run = {
        "errors": 0,
        "ready_seconds": side.ready_seconds,
        "ready_cpu_seconds": ready.cpu_seconds,
        "idle_percent": percent,
        "busy_percent": {},
        **memory(after),
    }
    if side.name == Wakelog.name:
        side.stop()  # which may be done twice: two of them at a time would disturb each other
        empty = measure(["-m", "benchmarks.idle", "--host-empty"], ROW_SECONDS)
        run["empty_percent"] = share(empty, ROW_SECONDS)
        run["above_empty_percent"] = percent - run["empty_percent"]
    return run


def table(measured: Measured, seconds: float) -> list[str]:
    """Return a side as lines of Markdown, the busiest role first, and the sum."""
    heading = (
        "| process | CPU until ready, s | idle, % of a core | wake-ups/s | PSS, MiB | threads |"
    )
    lines = [heading, "| --- | ---: | ---: | ---: | ---: | ---: |"]
    rows = sorted(measured.idle.items(), key=lambda row: -row[1].cpu_seconds)
    total, start_total = Use(), Use()
    for role, use in rows:
        start = measured.start.get(role, Use())
        total, start_total = total.plus(use), start_total.plus(start)
        name = f"{role} ({use.processes})" if use.processes > 1 else role
        lines.append(row_of(name, start, use, seconds))
    lines.append(row_of("**all**", start_total, total, seconds))
    return lines


def row_of(name: str, start: Use, idle: Use, seconds: float) -> str:
    """Return one line of the table."""
    share = 100 * idle.cpu_seconds / seconds
    return (
        f"| {name} | {start.cpu_seconds:.2f} | {share:.2f} | {idle.wake_ups / seconds:.0f} | "
        f"{idle.pss_bytes / MIB:.0f} | {idle.threads} |"
    )


def share(measured: Measured, seconds: float) -> float:
    """Return how much of a core a side takes when idle, in per cent."""
    return 100 * sum(use.cpu_seconds for use in measured.idle.values()) / seconds


def main(arguments: Sequence[str]) -> int:
    """Measure both sides and print, or write, what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--host-empty", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.host_empty:
        host_empty()
        return 0
    seconds: float = options.seconds
    with tempfile.TemporaryDirectory(prefix="wakelog-idle-") as folder:
        up = ["-m", "wakelog", "up", "--store", folder, "--namesrv-port", str(free_port())]
        up += ["--console-port", "0"]  # no broker of 4.9.3 has one
        ours = measure([*up, "--broker-port", str(free_port(-2, 1))], seconds)
    empty = measure(["-m", "benchmarks.idle", "--host-empty"], seconds)
    above = share(ours, seconds) - share(empty, seconds)
    lines = [
        "# Start and idle",
        "",
        f"`python -m benchmarks.idle --seconds {seconds:.0f}` on {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, Ray {version('ray')}, an empty store, the defaults.",
        "",
        f"Idle, wakelog takes {above:.2f} % of a core above the same Ray with empty actors.",
        "",
        f"## wakelog: ready after {ours.ready_seconds:.1f} s",
        "",
        *table(ours, seconds),
        "",
        f"## {ACTORS_COUNT} empty actors: ready after {empty.ready_seconds:.1f} s",
        "",
        *table(empty, seconds),
    ]
    text = "\n".join(lines) + "\n"
    if options.output is None:
        print(text)
    else:
        options.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
