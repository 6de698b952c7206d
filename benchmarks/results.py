"""Results as files: one ``<row>.json`` a row, so that rows can be measured one by one.

A file has the row, the machine, both configurations, each pair and the summary made of the pairs;
``summarise`` makes the same summary of the same pairs again.
"""

import json
import math
import os
import platform
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.kept import row_lines
from benchmarks.pairs import Measured, Pair
from benchmarks.rows import ROWS, Figure, Row
from benchmarks.sides import OWN_NAME
from tests.compat.provision import java_runtime
from wakelog.compiled.library import CHOICE, COMPILED, PLAIN

Result = dict[str, Any]
GIB = 1 << 30


def machine(folder: Path) -> dict[str, Any]:
    """Describe what the measurement runs on; ``folder`` is where the stores are."""
    java = java_runtime()
    answer = subprocess.run([java.java, "-version"], env=java.env, capture_output=True, text=True)
    mount = subprocess.run(["df", "--output=fstype", str(folder)], capture_output=True, text=True)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(pages / GIB, 1),
        "kernel": platform.release(),
        "file_system": mount.stdout.split()[-1],
        "python": platform.python_version(),
        "python_build": python_build(),
        "twin": COMPILED if CHOICE.is_compiled else PLAIN,
        "ray": version("ray"),
        "java": answer.stderr.splitlines()[0],
    }


def python_build() -> str:
    """Say how this Python was built: one without optimisation takes 4 to 22 % longer.

    That of a distribution is optimised, but keeps the options of its build to itself.
    """
    if sys.base_prefix == "/usr":
        build = "of the distribution"
    elif "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or ""):
        build = "optimised"
    else:
        build = "not optimised"
    return f"{build}, {platform.python_compiler()}"


def result_of(row: Row, measured: Measured, machine: dict[str, Any], busy_count: int = 0) -> Result:
    """Return what a row's file says. busy_count: of processes that computed beside it."""
    return {
        "row": row.name,
        "measured": time.strftime("%Y-%m-%d"),
        "machine": machine | {"busy_processes": busy_count},
        "driver": {
            "messages": row.messages,
            "warmup": row.warmup,
            "options": list(row.driver_options),
        },
        "configurations": measured.configurations,
        "void": measured.voids,
        "summary": summarise(row.figures, measured.pairs),
        "pairs": measured.pairs,
    }


def summarise(figures: Sequence[Figure], pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return of each figure both sides' medians and spreads, and those of the pairs' ratios."""
    return {figure.name: _summary(figure, pairs) for figure in figures} if pairs else {}


def _summary(figure: Figure, pairs: Sequence[Pair]) -> dict[str, Any]:
    values = {
        name: [float(pair[name][figure.name]) for pair in pairs if figure.name in pair[name]]
        for name in sorted(pairs[0], key=lambda name: name != OWN_NAME)
    }
    summary: dict[str, Any] = {name: _spread(found) for name, found in values.items() if found}
    ours, theirs = values.values()
    if ours and theirs and all(ours) and all(theirs):
        both = zip(ours, theirs, strict=True)
        ratios = [other / own if figure.less_is_better else own / other for own, other in both]
        summary["ratio"] = _spread(ratios)
    return summary


def _spread(values: Sequence[float]) -> dict[str, float]:
    found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def missed(row: Row, result: Result) -> list[str]:
    """Return the figures that do not keep what is promised of them."""
    return [figure.name for figure in row.figures if not _is_kept(figure, result["summary"])]


def _is_kept(figure: Figure, summary: dict[str, Any]) -> bool:
    found = summary.get(figure.name, {})
    if figure.required is not None:
        return bool(found.get("ratio", {}).get("median", 0.0) >= figure.required)
    if figure.most is not None:
        return bool(found.get("wakelog", {}).get("median", math.inf) <= figure.most)
    return True


def write(result: Result, folder: Path) -> None:
    """Write one row's file."""
    text = row_lines(result) + "\n"
    (folder / f"{result['row']}.json").write_text(text, encoding="utf-8")


def read_all(folder: Path) -> dict[str, Result]:
    """Return the rows that were measured, in the order of the table of rows."""
    paths = {row.name: folder / f"{row.name}.json" for row in ROWS}
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if path.is_file()
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
