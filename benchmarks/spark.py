"""The source and the rebuild by Spark, side by side: ``./dev bench spark [--part PART]``.

What is measured stands in ``spark_scan.py`` and ``spark_rebuild.py``, the log in ``spark_log.py``.
``results/spark.json`` has every turn, ``results/spark.md`` the medians; a part that is not run
keeps its figures.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.kept import RESULTS, row_lines
from benchmarks.spark_log import SEGMENT_BYTES, SEGMENTS_COUNT, write_log
from benchmarks.spark_rebuild import MASTERS, REAL, make_queues, measure_rebuilds
from benchmarks.spark_scan import NARROW, measure_scans, write_parquet

PARTS = ("scan", "rebuild")
TURNS_COUNT = 3
JSON_NAME, PAGE_NAME = "spark.json", "spark.md"

Figures = Mapping[str, Sequence[Mapping[str, float]]]
"""What is compared, to its turns, to figures by name."""

_ONE, _TWO = MASTERS
# Over which figure, by name; what is aimed at, and whether less is better.
RATIOS: Sequence[tuple[str, str, str, str, str]] = (
    ("full", "seconds", "full, Parquet uncompressed", "seconds", "at most 2"),
    ("full", "seconds", "full, Parquet snappy", "seconds", "at most 2"),
    ("narrow", "seconds", "narrow, Parquet uncompressed", "seconds", "below 1"),
    ("narrow", "seconds", "narrow, Parquet snappy", "seconds", "below 1"),
    ("full", "rows_per_second", "row by row", "rows_per_second", "at least 20"),
    (REAL, "seconds", _TWO, "seconds", "at least 10"),
    (REAL, "seconds", _TWO, "first_seconds", ""),
    (_ONE, "seconds", _TWO, "seconds", "near 2"),
)


def main(arguments: Sequence[str]) -> int:
    """Measure what was asked for and keep it beside what was measured before."""
    options = _read_options(arguments)
    began_seconds = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began_seconds:5.0f} s] {line}", flush=True)

    with tempfile.TemporaryDirectory(prefix="wakelog-spark-") as name:
        folder = options.data or Path(name)
        store = prepare(folder, say)
        for part in options.part or PARTS:
            if not options.turns:
                continue
            if part == "scan":
                found = measure_scans(store, folder / "parquet", options.turns, say)
            else:
                found = measure_rebuilds(store, folder, options.turns, say)
            page = _keep({part: found}, folder, options.output)
            print(page)
    return 0


def prepare(folder: Path, say: Callable[[str], None]) -> Path:
    """Make what is not there yet: the store, its queues, and Parquet with the same rows."""
    store = folder / "store"
    if not (store / "commitlog").exists():
        say(f"writing {SEGMENTS_COUNT * SEGMENT_BYTES >> 30} GiB")
        say(f"{write_log(store / 'commitlog')} messages")
    if not (store / "consumequeue").exists():
        say("making queues")
        make_queues(store, folder / "made")
    say("writing Parquet where it is not there yet")
    write_parquet(store, folder / "parquet")
    return store


def _keep(found: Mapping[str, Any], folder: Path, output: Path | None) -> str:
    """Add figures to those that the results have, and return the page."""
    before: dict[str, Any] = {}
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        if (output / JSON_NAME).exists():
            before = json.loads((output / JSON_NAME).read_text())
    now = {
        **before,
        "measured": time.strftime("%Y-%m-%d"),
        "machine": results.machine(folder),
        **found,
    }
    page = render(now)
    if output is not None:
        (output / JSON_NAME).write_text(row_lines(now) + "\n")
        (output / PAGE_NAME).write_text(page)
    return page


def render(found: Mapping[str, Any]) -> str:
    """Return the page: medians with the least and the greatest, then what they are compared by."""
    machine = found["machine"]
    figures: dict[str, Any] = {}
    for part in PARTS:
        figures |= found.get(part, {})
    lines = [
        "# Spark",
        "",
        f"`./dev bench spark`, {found['measured']}: {machine['cores']} cores of "
        f"{machine['processor']}, {machine['file_system']}, Linux {machine['kernel']}, Python "
        f"{machine['python']}, {machine['java']}. Medians of the turns, with the least and the "
        "greatest. [How to read them](../README.md#spark).",
        "",
        f"Narrow is {', '.join(NARROW)}.",
        "",
        "| what | seconds | rows/s | CPU s of the JVM | CPU s of Python | the first time, s |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(_line(name, turns) for name, turns in figures.items()),
        "",
        "| ratio | median | least to greatest | aim |",
        "| --- | ---: | ---: | ---: |",
        *_ratios(figures),
    ]
    return "\n".join(lines) + "\n"


def _line(name: str, turns: Sequence[Mapping[str, float]]) -> str:
    columns = ("seconds", "rows_per_second", "jvm_cpu_seconds", "python_cpu_seconds")
    shown = [_shown([x[each] for x in turns if each in x]) for each in (*columns, "first_seconds")]
    return f"| {' | '.join([name, *shown])} |"


def _shown(values: Sequence[float]) -> str:
    if not values:
        return ""
    median, least, most = statistics.median(values), min(values), max(values)
    if median >= 1000:
        return f"{median:,.0f} ({least:,.0f} to {most:,.0f})"
    return f"{median:.2f} ({least:.2f} to {most:.2f})"


def _ratios(figures: Figures) -> Iterator[str]:
    """Yield a line for each ratio of two that were measured, taken turn by turn."""
    for one, one_figure, other, other_figure, aim in RATIOS:
        if one in figures and other in figures:
            both = zip(figures[one], figures[other], strict=True)
            values = [mine[one_figure] / theirs[other_figure] for mine, theirs in both]
            word = ", the first time" if other_figure == "first_seconds" else ""
            yield (
                f"| {one} to {other}{word} | {statistics.median(values):.2f} | "
                f"{min(values):.2f} to {max(values):.2f} | {aim} |"
            )


class _Options(argparse.Namespace):
    part: list[str] | None
    turns: int
    data: Path | None
    output: Path | None


def _read_options(arguments: Sequence[str]) -> _Options:
    parser = argparse.ArgumentParser(prog="./dev bench spark", description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument(
        "--turns", type=int, default=TURNS_COUNT, metavar="N", help="0: prepare only"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="keeps log and Parquet files")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help=f"where results go; fewer than {TURNS_COUNT} turns are written nowhere else",
    )
    options = parser.parse_args(arguments, namespace=_Options())
    if options.output is None and options.turns >= TURNS_COUNT:
        options.output = RESULTS
    return options
