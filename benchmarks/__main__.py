"""Measure rows side by side and write what was found: ``./dev bench [--row NAME] [--pairs N]``.

``./dev bench spark``, ``client`` and ``curves`` have command lines of their own.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import results
from benchmarks.busy import busy_processes
from benchmarks.catch_up import measure_catch_up
from benchmarks.held import add_topics, measure_held
from benchmarks.idle import measure_idle
from benchmarks.kept import RESULTS
from benchmarks.load import (
    Drivers,
    Run,
    compile_drivers,
    measure_load,
    settings_of,
    write_accounts,
)
from benchmarks.pairs import measure
from benchmarks.picture import render_picture
from benchmarks.rebuild import RebuildLog, measure_rebuild
from benchmarks.rows import ROWS, Kind, Row
from benchmarks.sides import Prepare, Side, Wakelog, leave_empty, other_side
from benchmarks.slaves import wait_followed
from benchmarks.starts import StartStore, measure_starts
from benchmarks.table import PICTURE_NAME, render_page, summary_line
from wakelog.compiled.library import CHOICE

PAIRS_COUNT = 5
PAGE_NAME = "table.md"


class Bench:
    """A folder for stores and drivers, and what several rows need once."""

    def __init__(self, folder: Path, other: type[Side]) -> None:
        """Compile the drivers. other: the side that wakelog is compared with."""
        self._folder = folder
        self._sides = {side.name: side for side in (Wakelog, other)}
        self._drivers: Drivers = compile_drivers(folder / "classes")
        self._log: RebuildLog | None = None
        self._start_stores: dict[int, StartStore] = {}

    def run_side(self, row: Row, name: str) -> tuple[Run, Mapping[str, object]]:
        """Measure one side once, over a new store."""
        kind = self._sides[name]
        folder = self._folder / name

        def make(prepare: Prepare = leave_empty) -> Side:
            own = row.own_settings if issubclass(kind, Wakelog) else {}
            return kind(folder, {**settings_of(row, folder), **own}, prepare)

        if row.kind is Kind.REBUILD:
            log = self.rebuild_log()
            return measure_rebuild(lambda: make(log.copy_into), log, folder / "store")
        if row.kind is Kind.HELD:
            return self._run_held(row, kind, folder)
        if row.kind is Kind.STARTS:
            return measure_starts(lambda: make(self.start_store(row.messages).copy_into))
        if row.kind is Kind.CATCH_UP:
            prepare: Prepare = self.rebuild_log().copy_into
        else:
            prepare = write_accounts if row.access_control else leave_empty
        side = make(prepare)
        try:
            if row.kind is Kind.CATCH_UP:
                return measure_catch_up(side)
            if row.has_slave:
                side.add_slave()
                wait_followed(side)
            if row.kind is Kind.IDLE:
                return measure_idle(side), side.configuration
            return measure_load(row, side, self._drivers), side.configuration
        finally:
            side.stop()

    def _run_held(
        self, row: Row, kind: type[Side], folder: Path
    ) -> tuple[Run, Mapping[str, object]]:
        """Measure two brokers of one side, which stand beside each other."""
        side = kind(folder, settings_of(row, folder), add_topics)
        try:
            beside = folder.with_name(f"{folder.name}-empty")
            empty = kind(beside, settings_of(row, beside))
            try:
                return measure_held(row, side, empty), side.configuration
            finally:
                empty.stop()
        finally:
            side.stop()

    def start_store(self, queues_count: int) -> StartStore:
        """Return the store that starts of one row begin with, written the first time."""
        if queues_count not in self._start_stores:
            folder = self._folder / f"queues-{queues_count}"
            self._start_stores[queues_count] = StartStore(folder, queues_count)
        return self._start_stores[queues_count]

    def rebuild_log(self) -> RebuildLog:
        """Return the log that every rebuild begins with, written the first time."""
        if self._log is None:
            self._log = RebuildLog(self._folder, self._drivers)
        return self._log


class Options(NamedTuple):
    """What was asked for."""

    rows: list[Row]
    pairs_count: int
    output: Path | None
    other: type[Side]
    busy_count: int


def main(arguments: Sequence[str]) -> int:
    """Run the rows that were asked for; 1 if a promised ratio was missed."""
    # A stop from outside has to end what was started, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if arguments[:1] == ["spark"]:
        from benchmarks import spark

        return spark.main(arguments[1:])
    if arguments[:1] == ["client"]:
        from benchmarks import client

        return client.main(arguments[1:])
    if arguments[:1] == ["curves"]:
        from benchmarks import curves

        return curves.main(arguments[1:])
    options = read_options(arguments)
    began_seconds = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began_seconds:5.0f} s] {line}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="wakelog-bench-") as name,
        busy_processes(options.busy_count),
    ):
        return measure_rows(options, Path(name), say)


def measure_rows(options: Options, folder: Path, say: Callable[[str], None]) -> int:
    """Measure row by row, each written as soon as it is there."""
    bench, machine = Bench(folder, options.other), results.machine(folder)
    missed = False
    for number, row in enumerate(options.rows, 1):
        title = f"{row.name} ({number} of {len(options.rows)})"
        measured = measure(
            row.figures[0],
            lambda name, row=row: bench.run_side(row, name),  # type: ignore[misc]
            options.pairs_count,
            lambda line, title=title: say(f"{title}: {line}"),  # type: ignore[misc]
            other_name=options.other.name,
        )
        result = results.result_of(row, measured, machine, options.busy_count)
        missed = missed or not result["summary"] or bool(results.missed(row, result))
        say(summary_line(row, result))
        if options.output is not None and result["summary"]:
            results.write(result, options.output)
            render(options.output)
    return int(missed)


def render(folder: Path) -> None:
    """Write the page and the picture of the results that are in a folder."""
    found = results.read_all(folder)
    (folder / PAGE_NAME).write_text(render_page(found), encoding="utf-8")
    (folder / PICTURE_NAME).write_text(render_picture(found), encoding="utf-8")


def read_options(arguments: Sequence[str]) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    names = [row.name for row in ROWS]
    parser.add_argument("--pairs", type=int, default=PAIRS_COUNT, metavar="N")
    parser.add_argument(
        "--row", action="append", choices=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help=f"where results go; fewer than {PAIRS_COUNT} pairs are written nowhere else",
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="CHECKOUT",
        help="compare with another checkout that has its .venv, instead of RocketMQ",
    )
    parser.add_argument(
        "--busy",
        type=int,
        default=0,
        metavar="N",
        help="measure beside N processes that compute all the time",
    )
    found = parser.parse_args(arguments)
    output: Path | None = found.output
    if output is not None and found.against is not None:
        parser.error("results of --against are printed only: leave --output out")
    if output is None and found.against is None and found.pairs >= PAIRS_COUNT:
        output = results_folder(found.busy)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    try:
        other = other_side(found.against)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        parser.error(f"--against: {error}")
    return Options(
        [row for row in ROWS if found.row is None or row.name in found.row],
        found.pairs,
        output,
        other,
        found.busy,
    )


def results_folder(busy_count: int) -> Path:
    """Return where results go; those of plain Python and of a busy machine have their own."""
    parts = ([] if CHOICE.is_compiled else ["plain_python"]) + (["busy"] if busy_count else [])
    return RESULTS.joinpath(*parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
