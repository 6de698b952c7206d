"""`./dev mutants [NAME ...]`: plant each defect in a copy, and name those that nothing notices."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.patches import DoesNotFit, Patch, all_patches

ROOT = Path(__file__).resolve().parents[2]

COPIED = ("wakelog", "pyspark_rocketmq", "tests", "scripts", "pyproject.toml")

SECONDS_MAX = 600.0
"""How long the tests of one defect may take; what hangs by then has noticed it."""

TESTS_FAILED = 1
"""What pytest returns if a test failed; more says that it could not run them."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class CannotRun(Exception):
    """The tests that should notice a defect do not run."""


def copy_tree(target: Path) -> None:
    """Copy what tests need; an environment and caches stay where they are."""
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache", "*.pyc")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy2(source, target / name)


def notice(patch: Patch, copy: Path) -> str:
    """Return the test that notices a defect in the copy, "" if none does.

    Raises: DoesNotFit, CannotRun.
    """
    before = patch.plant(copy)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *patch.tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{patch.tests[0]} (hangs)"
    finally:
        for path, text in before.items():
            path.write_text(text)
    if done.returncode > TESTS_FAILED:
        raise CannotRun(
            f"{patch.name}: {' '.join(patch.tests)}\n{(done.stdout + done.stderr)[-2_000:]}"
        )
    if not done.returncode:
        return ""
    found = _FAILED.search(done.stdout)
    return found[1] if found else patch.tests[0]


def main(names: Sequence[str]) -> int:
    """Try the patches that are named, or all; return 1 if one survives or does not fit."""
    patches = [patch for patch in all_patches() if not names or patch.name in names]
    if unknown := set(names) - {patch.name for patch in patches}:
        print(f"mutants: no patch {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    left: list[str] = []
    with tempfile.TemporaryDirectory(prefix="wakelog-mutants-") as directory:
        copy = Path(directory)
        copy_tree(copy)
        for patch in patches:
            began = time.monotonic()
            try:
                by = notice(patch, copy)
            except (DoesNotFit, CannotRun) as error:
                by, said = "", str(error)
            else:
                said = f"noticed by {by}" if by else f"SURVIVES: {patch.meaning}"
            left += [] if by else [patch.name]
            print(f"{patch.name}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{len(patches) - len(left)} of {len(patches)} defects noticed", flush=True)
    for name in left:
        print(f"not noticed: {name}", flush=True)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
