"""Measure and print a table: ``python -m benchmarks [--pairs N] [--row NAME] [--output FILE]``."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.pairs import measure
from benchmarks.rows import ROWS
from tests.compat.provision import java_runtime, rocketmq_classpath

DRIVERS = Path(__file__).parent / "drivers"
PAIRS_COUNT = 5


def main(arguments: Sequence[str]) -> int:
    """Run the rows that were asked for; 1 if a required ratio was missed."""
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS_COUNT)
    parser.add_argument("--row", action="append", choices=[row.name for row in ROWS])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if options.row is None or row.name in options.row]
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="wakelog-bench-") as name:
        folder = Path(name)
        classes = compile_drivers(folder / "classes")
        for row in rows:
            result = measure(row, options.pairs, folder, classes)
            results.append(result)
            print(line_of(result), flush=True)
    if options.output is not None:
        machine = {"cores": os.cpu_count(), "kernel": platform.release()}
        text = json.dumps({"machine": machine, "rows": results}, indent=1)
        options.output.write_text(text + "\n")
    return int(any(is_missed(result) for result in results))


def compile_drivers(classes: Path) -> Path:
    """Compile both drivers against the real client."""
    runtime = java_runtime()
    sources = [str(path) for path in sorted(DRIVERS.glob("*.java"))]
    command = [runtime.javac, "-cp", rocketmq_classpath(), "-d", str(classes), *sources]
    subprocess.run(command, env=runtime.env, check=True)
    return classes


def line_of(result: dict[str, Any]) -> str:
    """Return one line of the table."""
    row, summary = result["row"], result["summary"]
    if row["figure"] not in summary:
        return f"{row['name']:14} void: every pair had a client error"
    figure, cpu = summary[row["figure"]], summary["broker_cpu"]
    return (
        f"{row['name']:14} {row['figure']:10} wakelog {figure['wakelog']:10.3f}  "
        f"rocketmq {figure['rocketmq']:10.3f}  ratio {figure['ratio']:5.2f} "
        f"[{figure['ratio_min']:.2f}, {figure['ratio_max']:.2f}]  "
        f"CPU s/million {cpu['wakelog']:6.1f} against {cpu['rocketmq']:6.1f}  "
        f"void {summary['void']}"
    )


def is_missed(result: dict[str, Any]) -> bool:
    """Whether the row promises a ratio that it did not reach."""
    row, summary = result["row"], result["summary"]
    if row["required"] is None:
        return False
    return row["figure"] not in summary or summary[row["figure"]]["ratio"] < row["required"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
