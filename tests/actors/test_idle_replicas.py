"""Check 25: replicas cost next to nothing while nobody sends, and log nothing."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.actors.deploy.test_replicas import PLAIN, addresses_of, ends_equal, free_ports, is_taken
from tests.actors.replicas import SMALL, wait_until, wakelog_up
from tests.compat.clusters import Wakelog

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]

SETTLE_SECONDS: Final = 15.0
WATCH_SECONDS: Final = 40.0
MORE_PERCENT_MAX: Final = 1.0


def logs(up: Wakelog) -> dict[Path, str]:
    """Return what each file of the logs has."""
    return {path: path.read_text() for path in up.cluster.store.rglob("*.log") if path.is_file()}


def cpu_seconds(process: Path) -> float:
    """Return how long the threads of a process ran, as the kernel counts them."""
    counted = (path.read_text() for path in process.glob("task/*/schedstat"))
    return sum(int(text.split()[0]) for text in counted) / 1e9


def watched(
    folder: Path, flags: Sequence[str], settings: Mapping[str, str], count: int
) -> tuple[float, int]:
    """Return the CPU of idle brokers in per cent of a core, and how many lines they logged."""
    ports = free_ports(count)
    with wakelog_up(folder, settings, flags=["--local", *flags], ports=ports) as up:
        if "--replicas" in flags:
            first, *others = addresses_of(up, count)
            wait_until(lambda: is_taken(first), "a send is copied")
            for other in others:
                wait_until(partial(ends_equal, other, first), "all follow")
        process = Path(f"/proc/{up.process.process_id}")
        time.sleep(SETTLE_SECONDS)
        before, said = cpu_seconds(process), logs(up)
        time.sleep(WATCH_SECONDS)
        used = cpu_seconds(process) - before
        new = [
            line
            for path, text in logs(up).items()
            for line in text.removeprefix(said.get(path, "")).splitlines()
        ]
        print(*new, sep="\n")
        up.stop()
    return 100 * used / WATCH_SECONDS, len(new)


@pytest.mark.parametrize(
    ("name", "count", "settings"),
    [("a master and its slave", 2, PLAIN), ("a group of three with a register", 3, SMALL)],
)
def test_what_idle_replicas_cost(
    tmp_path: Path,
    name: str,
    count: int,
    settings: Mapping[str, str],
    record_property: Callable[[str, object], None],
) -> None:
    alone, _ = watched(tmp_path / "alone", ["--brokers", str(count)], SMALL, count)
    together, lines = watched(tmp_path / "together", ["--replicas", str(count)], settings, count)
    said = f"{name}: {alone:.2f} % of a core alone, {together:.2f} % together"
    record_property("said", said)
    assert lines == 0
    assert together - alone < MORE_PERCENT_MAX, said
