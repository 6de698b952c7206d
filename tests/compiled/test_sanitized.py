"""The library built with sanitizers: hostile input makes no read or write outside of a buffer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wakelog.compiled.build import BuildFailed, build, compilers

TRIED = {"mutated_sends": (40_000, "chunks"), "hostile_columns": (4_000, "logs")}
"""A module, how much it tries, and of what."""

RUN_SECONDS_MAX = 600
SANITIZERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def runtime() -> str:
    """Return the sanitizers' libraries, which have to be loaded before Python."""
    compiler = next(compilers())
    names = ("libasan.so", "libubsan.so")
    asked = [[*compiler, f"-print-file-name={name}"] for name in names]
    return " ".join(subprocess.check_output(one, text=True).strip() for one in asked)


@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(RUN_SECONDS_MAX + 60)
@pytest.mark.parametrize("module", TRIED)
def test_hostile_input_reads_and_writes_nothing_outside(module: str, tmp_path: Path) -> None:
    count, unit = TRIED[module]
    library = tmp_path / "sanitized.abi3.so"
    try:
        build(library, *SANITIZERS)
    except BuildFailed as failure:
        pytest.skip(str(failure))
    outcome = subprocess.run(
        [sys.executable, "-m", f"tests.compiled.{module}", str(library), str(count)],
        env={
            **os.environ,
            "LD_PRELOAD": runtime(),
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps what it has made for itself
        },
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr[-4_000:]
    assert outcome.stdout.startswith(f"{count} {unit}, ")
