"""Queues and index of one log by Spark, on one core and on two, beside the real broker's reput.

Each rebuild by Spark is a process of its own, which does it twice into new folders. The first time
starts Python workers and loads compiled code, the second time does not. What the real
broker has to end with are the last bytes of what Spark made, so that a difference shows as a
rebuild that does not end. How its time is taken stands in ``rebuild.py``.

    python -m benchmarks.spark_rebuild STORE INTO MASTER    rebuild twice, print both as JSON
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.load import SETTINGS
from benchmarks.rebuild import Piece, Watch, dispatch_began, last_pieces
from benchmarks.sides import RocketMQ
from benchmarks.spark_scan import Figures, session
from wakelog.spark.jobs.rebuild import rebuild
from wakelog.storage.config import StoreConfig

MASTERS = {"Spark, 1 core": "local[1]", "Spark, 2 cores": "local[2]"}
REAL = "the real broker's reput"
TIMES_COUNT = 2


def measure_rebuilds(
    store: Path, folder: Path, turns_count: int, say: Callable[[str], None]
) -> dict[str, list[Figures]]:
    """Measure all in turns; return the figures of each turn."""
    found: dict[str, list[Figures]] = {}
    made = folder / "made"
    for turn in range(turns_count):
        for name, master in list(MASTERS.items())[:: 1 if turn % 2 == 0 else -1]:
            shutil.rmtree(made, ignore_errors=True)
            first, second = _by_spark(store, made, master)
            found.setdefault(name, []).append({"seconds": second, "first_seconds": first})
            say(f"turn {turn + 1}, {name}: {second:.2f} s, the first time {first:.2f} s")
        seconds = _by_broker(store, folder / "rocketmq", list(last_pieces(made)))
        found.setdefault(REAL, []).append({"seconds": seconds})
        say(f"turn {turn + 1}, {REAL}: {seconds:.2f} s")
    shutil.rmtree(made)
    return found


def make_queues(store: Path, made: Path) -> None:
    """Give a log its consume queues, which a store has and a copied log has not."""
    _by_spark(store, made, "local[2]")
    (made / "consumequeue").rename(store / "consumequeue")
    shutil.rmtree(made)


def _by_spark(store: Path, made: Path, master: str) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.spark_rebuild", str(store), str(made), master]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def _by_broker(store: Path, folder: Path, pieces: list[Piece]) -> float:
    """Start the real broker over a copy of the log; return the seconds of its dispatch."""

    def copy_log(into: Path) -> None:
        subprocess.run(["cp", "-R", str(store / "commitlog"), str(into)], check=True)

    watch = Watch(pieces, folder / "store")
    try:
        side = RocketMQ(folder, SETTINGS, copy_log)
        try:
            ended_seconds = watch.wait()
        finally:
            side.stop()
    finally:
        watch.stop()
    seconds = ended_seconds - dispatch_began(RocketMQ.name, folder)
    shutil.rmtree(folder)
    return seconds


def main(store: Path, made: Path, master: str) -> None:
    """Rebuild as often as is counted, into ``made`` the last time."""
    seconds = []
    with session(made.parent, master) as (spark, _):
        for _ in range(TIMES_COUNT):
            shutil.rmtree(made, ignore_errors=True)
            began_seconds = time.perf_counter()
            rebuild(spark, StoreConfig(store_path_root=str(store)), str(made))
            seconds.append(time.perf_counter() - began_seconds)
    print(json.dumps(seconds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("made", type=Path)
    parser.add_argument("master")
    main(**vars(parser.parse_args()))
