"""Runs in turns and what they come to: pair by pair, because the machine's speed drifts.

A pair is one run of each side, one right after the other; the order changes with each pair. The
ratio is taken within a pair, and quoted as the median of the pairs with the least and the greatest.
A pair in which a driver reported an error is void.
"""

import json
import statistics
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.rows import BODY_BYTES, Row
from benchmarks.sides import SIDES, RocketMQ, Wakelog
from tests.compat.provision import java_runtime, rocketmq_classpath

DRIVER_SECONDS_MAX = 300
SETTINGS = {"mappedFileSizeCommitLog": str(1 << 30)}


class Run(NamedTuple):
    """One driver against one side."""

    figures: dict[str, Any]
    cpu_seconds_per_million: float
    broker_cpu_seconds_per_million: float
    pss_bytes: int


def measure(row: Row, pairs_count: int, folder: Path, classes: Path) -> dict[str, Any]:
    """Run one row and return its figures, ratios and configurations, ready for JSON."""
    pairs: list[dict[str, Run]] = []
    configurations: dict[str, Any] = {}
    for index in range(pairs_count):
        order = SIDES if index % 2 == 0 else SIDES[::-1]
        pair: dict[str, Run] = {}
        for make_side in order:
            side: Wakelog | RocketMQ = make_side(folder / make_side.name, settings_of(row))
            configurations[side.name] = dict(side.configuration)
            try:
                pair[side.name] = run_driver(row, side, classes)
            finally:
                side.stop()
        pairs.append(pair)
    return {
        "row": row._asdict(),
        "configurations": configurations,
        "pairs": [{name: run._asdict() for name, run in pair.items()} for pair in pairs],
        "summary": summarise(row, pairs),
    }


def settings_of(row: Row) -> Mapping[str, str]:
    """Return the keys of broker.conf that both sides get."""
    flush = "SYNC_FLUSH" if row.synchronous_flush else "ASYNC_FLUSH"
    return SETTINGS | {"flushDiskType": flush}


def run_driver(row: Row, side: Wakelog | RocketMQ, classes: Path) -> Run:
    """Run the row's driver once, after what it needs is there."""
    topic = "benchmark"
    if row.mode == "consume":
        _client(classes, side, "sync", 64, 1_000, row.messages - 1_000, topic)
    before = side.cost()
    if row.driver == "client":
        figures = _client(classes, side, row.mode, row.workers, row.warmup, row.messages, topic)
    else:
        _client(classes, side, "sync", 1, 10, 10, topic)
        figures = _frames(classes, side, row, topic)
    after = side.cost()
    warmed = row.warmup if row.driver == "client" and row.mode != "consume" else 0
    millions = (figures["messages"] + warmed) / 1e6
    return Run(
        figures,
        (after.cpu_seconds - before.cpu_seconds) / millions,
        (after.broker_cpu_seconds - before.broker_cpu_seconds) / millions,
        after.pss_bytes,
    )


def _client(
    classes: Path,
    side: Wakelog | RocketMQ,
    mode: str,
    workers: int,
    warmup: int,
    count: int,
    topic: str,
) -> dict[str, Any]:
    numbers = [str(workers), str(warmup), str(count), str(BODY_BYTES)]
    return _java(classes, ["ClientLoad", side.name_server, mode, *numbers, topic])


def _frames(classes: Path, side: Wakelog | RocketMQ, row: Row, topic: str) -> dict[str, Any]:
    host, _, port = side.broker.rpartition(":")
    connections = 4 if "4x" in row.name else 1
    numbers = [str(connections), str(row.workers), str(row.messages), str(BODY_BYTES)]
    return _java(classes, ["FrameLoad", host, port, row.mode, *numbers, topic, "4"])


def _java(classes: Path, command: list[str]) -> dict[str, Any]:
    runtime = java_runtime()
    environment = {**runtime.env, "CLASSPATH": f"{classes}:{rocketmq_classpath()}"}
    done = subprocess.run(
        [runtime.java, "-Xmx1g", *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DRIVER_SECONDS_MAX,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(f"{command[0]} printed no figures: {done.stdout}{done.stderr}")
    figures: dict[str, Any] = json.loads(lines[-1])
    return figures


def summarise(row: Row, pairs: list[dict[str, Run]]) -> dict[str, Any]:
    """Return medians of both sides and the ratios, above 1 where wakelog is better."""
    sound = [pair for pair in pairs if not any(run.figures["errors"] for run in pair.values())]
    if not sound:
        return {"void": len(pairs)}

    def figure(run: Run) -> float:
        return float(run.figures[row.figure])

    def spread(value: Callable[[Run], float], *, less_is_better: bool) -> dict[str, float]:
        ours = [value(pair["wakelog"]) for pair in sound]
        theirs = [value(pair["rocketmq"]) for pair in sound]
        ratios = [
            (other / own if less_is_better else own / other)
            for own, other in zip(ours, theirs, strict=True)
            if own and other
        ] or [0.0]
        return {
            "wakelog": statistics.median(ours),
            "rocketmq": statistics.median(theirs),
            "ratio": statistics.median(ratios),
            "ratio_min": min(ratios),
            "ratio_max": max(ratios),
        }

    return {
        "void": len(pairs) - len(sound),
        row.figure: spread(figure, less_is_better=row.less_is_better),
        "cpu": spread(lambda run: run.cpu_seconds_per_million, less_is_better=True),
        "broker_cpu": spread(lambda run: run.broker_cpu_seconds_per_million, less_is_better=True),
        "pss": spread(lambda run: float(run.pss_bytes), less_is_better=True),
    }
