"""How wakelog and the real RocketMQ 4.9.3 bend with size: ``./dev bench curves``.

    ./dev bench curves [--curve NAME]... [--rounds N] [--log-gib N...] [--output DIR]

What a user suffers from, curve by curve:

    queues       time and CPU of a message, sent to 1 to 10,000 queues in turn
    held         p50 of one send at a time and its CPU, beside 1 to 10,000 pulls that wait
    connections  time and CPU of a message, from 1 to 1,000 producers that wait for each answer
    spread       the same, with 1,000 sends in flight over 1 to 1,000 connections
    bodies       time and CPU of a message of 100 B to 1 MiB
    log          seconds until ready after a stop and after a kill, p50 of a send, and a consumer's
                 seconds for a GB from the beginning, with a log of 1 to 16 GiB or more

A round sweeps over the points of a curve, and at each over wakelog and RocketMQ, one right after
the other, each with a new broker. ``results/curves.json`` and ``curves.md`` have what was found;
a curve is written as soon as it is measured, and one that is not measured stays.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.curve_logs import SegmentedLogs, disk_bytes_needed, measure_log
from benchmarks.curve_page import PICTURE_NAME, bends, render_page, render_picture
from benchmarks.curve_points import measure_point
from benchmarks.curve_rows import CURVES, LOG_GIB, Curve
from benchmarks.kept import RESULTS, row_lines
from benchmarks.load import Run, compile_drivers
from benchmarks.pairs import Pair, measure
from benchmarks.sides import RocketMQ, Side, Wakelog

ROUNDS_COUNT = 3
JSON_NAME, PAGE_NAME = "curves.json", "curves.md"
IDLE_SECONDS = 2.0
"""For which the machine is looked at before a curve, when nothing of it runs."""


class Bench:
    """A folder for stores and drivers, and the logs that the curve ``log`` begins with."""

    def __init__(self, folder: Path, log_gib: Sequence[int], say: Callable[[str], None]) -> None:
        """Compile the drivers."""
        self._folder = folder
        self._log_gib = log_gib
        self._say = say
        self._drivers = compile_drivers(folder / "classes")
        self._logs: SegmentedLogs | None = None

    def run(self, curve: Curve, size: int, name: str) -> tuple[Run, Mapping[str, object]]:
        """Measure a point of one side, over a store that is removed afterwards."""
        kinds: dict[str, type[Side]] = {side.name: side for side in (Wakelog, RocketMQ)}
        folder = self._folder / name
        make = partial(kinds[name], folder)
        try:
            if curve.name == "log":
                return measure_log(size, make, self._made_logs())
            return measure_point(curve, size, make, self._drivers)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _made_logs(self) -> SegmentedLogs:
        if self._logs is None:
            self._logs = SegmentedLogs(self._folder / "logs", self._log_gib, self._say)
        return self._logs


def measure_curve(
    curve: Curve, bench: Bench, rounds_count: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Return a curve's points, round by round; an empty one where a point stayed void."""
    points: dict[str, list[Pair]] = {str(size): [] for size in curve.sizes}
    voids: list[str] = []
    configurations: dict[str, Mapping[str, object]] = {}
    for number in range(rounds_count):
        for size in curve.sizes:
            title = f"{curve.name}, round {number + 1} of {rounds_count}, {size:,} {curve.unit}"
            found = measure(
                curve.costs[0],
                lambda name, size=size: bench.run(curve, size, name),  # type: ignore[misc]
                1,
                lambda line, title=title: say(f"{title}: {line}"),  # type: ignore[misc]
                other_name=RocketMQ.name,
            )
            points[str(size)].append(_kept(found.pairs[0], curve) if found.pairs else {})
            voids += [f"{size}: {reason}" for reason in found.voids]
            configurations |= found.configurations
    return {"void": voids, "configurations": configurations, "points": points}


def _kept(pair: Pair, curve: Curve) -> Pair:
    """Return what of a pair the page is made from, in four digits."""
    names = [figure.name for figure in (*curve.costs, *curve.shown)]
    return {side: {name: float(f"{run[name]:.4g}") for name in names} for side, run in pair.items()}


def load_before() -> dict[str, float]:
    """Say how busy the machine is while nothing of a curve runs."""
    before, load = _busy_seconds(), os.getloadavg()[0]
    time.sleep(IDLE_SECONDS)
    busy_percent = 100 * (_busy_seconds() - before) / IDLE_SECONDS
    return {"before": round(load, 2), "busy_percent": round(busy_percent, 1)}


def _busy_seconds() -> float:
    """Return what all cores together have worked: user, nice and system time."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4]
    return sum(map(int, fields)) / os.sysconf("SC_CLK_TCK")


def read(folder: Path) -> dict[str, Any]:
    """Return the curves that a folder has."""
    path = folder / JSON_NAME
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(found: Mapping[str, Any], folder: Path) -> None:
    """Write curves instead of those of the same names, and page and picture of all."""
    every = {**read(folder), **found}
    every = {curve.name: every[curve.name] for curve in CURVES if curve.name in every}
    (folder / JSON_NAME).write_text(row_lines(every) + "\n", encoding="utf-8")
    (folder / PAGE_NAME).write_text(render_page(every), encoding="utf-8")
    (folder / PICTURE_NAME).write_text(render_picture(every), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Measure the curves that were asked for; 1 if one bends up or has a point without a figure."""
    options = _read_options(arguments)
    began_seconds = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began_seconds:5.0f} s] {line}", flush=True)

    failed = False
    with tempfile.TemporaryDirectory(prefix="wakelog-curves-", dir=options.folder) as name:
        bench = Bench(Path(name), options.log_gib, say)
        machine = results.machine(Path(name))
        for curve in CURVES:
            if options.curve and curve.name not in options.curve:
                continue
            if curve.name == "log":
                curve = curve._replace(sizes=tuple(sorted(set(options.log_gib))))
            head = {"measured": time.strftime("%Y-%m-%d"), "machine": machine}
            found = {
                **head,
                "load": load_before(),
                **measure_curve(curve, bench, options.rounds, say),
            }
            where = bends(curve, found["points"])
            failed |= bool(where) or not all(map(all, found["points"].values()))
            say(f"{curve.name} bends up: {'; '.join(where) or 'nowhere'}")
            if options.output is not None:
                write({curve.name: found}, options.output)
    return int(failed)


class _Options(argparse.Namespace):
    curve: list[str] | None
    rounds: int
    log_gib: list[int]
    folder: Path | None
    output: Path | None


def _read_options(arguments: Sequence[str]) -> _Options:
    parser = argparse.ArgumentParser(prog="./dev bench curves", description=__doc__)
    names = [curve.name for curve in CURVES]
    parser.add_argument(
        "--curve", action="append", choices=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS_COUNT, metavar="N")
    parser.add_argument("--log-gib", type=int, nargs="+", default=list(LOG_GIB), metavar="N")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the stores are")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help=f"where results go; fewer than {ROUNDS_COUNT} rounds are written nowhere else",
    )
    options = parser.parse_args(arguments, namespace=_Options())
    if options.rounds < 1 or min(options.log_gib) < 1:
        parser.error("--rounds and --log-gib are 1 at least")
    if options.curve is None or "log" in options.curve:
        free_bytes = shutil.disk_usage(options.folder or tempfile.gettempdir()).free
        if free_bytes < (needed := disk_bytes_needed(options.log_gib)):
            parser.error(
                f"logs of {options.log_gib} GiB need {needed / 1e9:.0f} GB of disk, and "
                f"{free_bytes / 1e9:.0f} are free: give less by --log-gib, or a --folder"
            )
    if options.output is None and options.rounds >= ROUNDS_COUNT:
        options.output = RESULTS
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
