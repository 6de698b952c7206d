"""The points of the curve ``log``: one log that grows, and what a broker does with it.

The log is written once, through the store's own code, up to each size in turn. A size is kept as a
folder whose full segments are hard links to those of the log, which no broker writes again. A side
gets such a folder, too. So the disk holds the largest log once, and both sides read the same bytes.

A side is started over its folder, which is not counted: another had left it. Then it is stopped in
order and started, killed and started. No page of the store is in the page cache before a start.
"""

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.held import send_in_turns
from benchmarks.load import SETTINGS, TOPIC, Run, create_topic
from benchmarks.paced import Connection, drain
from benchmarks.recovery import GIGABYTE, QUEUES_COUNT, Owner, forget_pages
from benchmarks.recovery import TOPIC as LOG_TOPIC
from benchmarks.sides import Prepare, Side
from wakelog.storage.config import StoreConfig

LOG_FOLDER = "commitlog"
CONSUMED_MESSAGES = 200_000
SENDS_WARMUP, SENDS_COUNT = 3_000, 3_000
SETTLE_SECONDS = 3.0
"""Longer than queues and index wait for their sync."""

QUEUES_SHARE = 0.06
"""What queues and index take beside a log of such messages."""

SIDE_BYTES = 3 << 30
"""Of segments that a folder has for itself: the last, and what a broker makes ahead."""


class SegmentedLogs:
    """A store of each size that was asked for, stopped in order."""

    def __init__(self, folder: Path, gigabytes: Sequence[int], say: Callable[[str], None]) -> None:
        """Write them, the least first."""
        self._folder = folder
        growing = folder / "growing"
        growing.mkdir(parents=True)
        for size in sorted(set(gigabytes)):
            owner = Owner(StoreConfig(store_path_root=str(growing)))
            while owner.log_bytes < size * GIGABYTE:
                owner.write()
            owner.close()
            link_store(growing, self._of(size))
            say(f"a log of {size} GB is written")
        shutil.rmtree(growing)
        os.sync()  # else a broker would be measured beside it

    def copy_into(self, gigabytes: int, store: Path) -> None:
        """Give a side the store of a size."""
        link_store(self._of(gigabytes), store)

    def _of(self, gigabytes: int) -> Path:
        return self._folder / f"{gigabytes}"


def link_store(source: Path, target: Path) -> None:
    """Copy a store; of its log link all segments but the last."""
    log = target / LOG_FOLDER
    log.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.name != LOG_FOLDER:
            _copy(path, target)
    *full, last = sorted((source / LOG_FOLDER).iterdir())
    for segment in full:
        os.link(segment, log / segment.name)
    _copy(last, log)


def _copy(path: Path, into: Path) -> None:
    subprocess.run(["cp", "-R", "--sparse=always", str(path), str(into)], check=True)


def disk_bytes_needed(gigabytes: Sequence[int]) -> int:
    """Return how much of a disk the logs and one side's copies take."""
    sizes = sorted(set(gigabytes))
    copied = [size * GIGABYTE * QUEUES_SHARE + SIDE_BYTES for size in (*sizes, sizes[-1])]
    return round(sizes[-1] * GIGABYTE + sum(copied))


def measure_log(
    gigabytes: int,
    make_side: Callable[[Mapping[str, str], Prepare], Side],
    logs: SegmentedLogs,
) -> tuple[Run, Mapping[str, object]]:
    """Start, stop, start, send, kill, start, consume; return figures and configuration."""
    side = make_side(SETTINGS, lambda store: logs.copy_into(gigabytes, store))
    try:
        create_topic(side, TOPIC)
        create_topic(side, LOG_TOPIC, QUEUES_COUNT)
        time.sleep(SETTLE_SECONDS)
        side.stop(in_order=True)
        orderly_seconds = _start_cold(side)
        with Connection(side.broker) as sender:
            send_in_turns([sender], SENDS_WARMUP)
            [took_ms] = send_in_turns([sender], SENDS_COUNT)
        time.sleep(SETTLE_SECONDS)
        side.kill()
        killed_seconds = _start_cold(side)
        with Connection(side.broker) as consumer:
            drained = drain(consumer, LOG_TOPIC, CONSUMED_MESSAGES, QUEUES_COUNT)
        if drained["messages"] < CONSUMED_MESSAGES:
            raise RuntimeError(f"the log's beginning was not consumed: {drained}")
    finally:
        side.kill()
    run: Run = {
        "errors": 0,
        "orderly_seconds": orderly_seconds,
        "killed_seconds": killed_seconds,
        "p50_ms": statistics.median(took_ms),
        "seconds_per_gb": drained["seconds"] * 1e9 / drained["bytes"],
        "mb_per_second": drained["bytes"] / 1e6 / drained["seconds"],
    }
    return run, side.configuration


def _start_cold(side: Side) -> float:
    forget_pages(side.store)
    side.start_again()
    return side.ready_seconds
