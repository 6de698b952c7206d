"""Programs that take arguments say their usage if they get wrong ones."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = [
    path.relative_to(ROOT)
    for folder in ("benchmarks", "deploy", "examples")
    for path in sorted(ROOT.glob(f"{folder}/*.py"))
    if "__main__" in (text := path.read_text(encoding="utf-8"))
    and ("sys.argv" in text or "argparse" in text)
]


def test_programs_are_found() -> None:
    assert len(PROGRAMS) > 8


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            path, id=str(path), marks=[pytest.mark.long] if path.parts[0] == "benchmarks" else []
        )
        for path in PROGRAMS
    ],
)
def test_a_wrong_argument_is_answered_with_the_usage(program: Path) -> None:
    module = ".".join(program.with_suffix("").parts)
    words = [sys.executable, "-m", module, "--no-such-option"]
    outcome = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode != 0
    assert "usage: " in outcome.stderr or "--help" in outcome.stderr
    assert "Traceback" not in outcome.stderr
