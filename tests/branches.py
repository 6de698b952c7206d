"""How many branches of storage and dispatchers their own tests take, and what may be left out.

`test_branches.py` runs the tests of `PARTS` once more under coverage, beside each other. `./dev
test` prints what comes of it.

A branch is left out by a pragma only if `EXCLUDED` has its line and the reason.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT = Path(__file__).resolve().parent.parent

FOLDERS: Final = ("wakelog/storage", "wakelog/dispatchers", "wakelog/audit")
PERCENT_MIN: Final = 95.0

EXCLUDED: Final[dict[tuple[str, str], str]] = {}
"""Path and line, as it stands there without the pragma, to the reason."""

_ANY_LOG = "tests/audit/test_parts.py::test_any_log_gives_the_same_files"

PARTS: Final = (
    ("tests/storage", "--ignore=tests/storage/columns"),
    (
        "tests/storage/columns",
        "tests/dispatchers",
        "tests/audit",
        # Whole stores and more of the same, which take no branch that the others do not.
        "--ignore=tests/dispatchers/test_golden_rebuild.py",
        "--ignore=tests/dispatchers/test_golden_recovery.py",
        "--ignore=tests/dispatchers/test_hostile_stores.py",
        "--ignore=tests/dispatchers/test_lying_stores.py",
        *(f"--deselect={_ANY_LOG}[{seed}]" for seed in range(2, 6)),
    ),
)
"""Arguments of pytest; each part is a process of its own, as long as the other, and both run at
once."""

PRAGMA: Final = re.compile(r"#\s*pragma:\s*no\s*(cover|branch)", re.IGNORECASE)


class Branches(NamedTuple):
    """What was taken of one module's branches, or of those of many."""

    taken: int
    total: int

    @property
    def percent(self) -> float:
        """How many are taken; all, where there is none."""
        return 100.0 * self.taken / self.total if self.total else 100.0


def pragmas() -> Iterator[tuple[str, str]]:
    """Yield path and line of every pragma in the package."""
    for path in sorted((ROOT / "wakelog").rglob("*.py")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if PRAGMA.search(line):
                yield str(path.relative_to(ROOT)), PRAGMA.sub("", line).strip()


def measure(directory: Path) -> dict[str, Branches]:
    """Run the parts and return what they take of each module, by path.

    Raises: AssertionError, with the output, if a test fails.
    """
    settings = _settings(directory)
    runs = [_start(settings, part) for part in PARTS]
    outputs = [run.communicate()[0] for run in runs]
    for run, output in zip(runs, outputs, strict=True):
        assert run.returncode == 0, output
    _coverage(settings, "combine", "-q")
    report = directory / "coverage.json"
    _coverage(settings, "json", "-q", "-o", str(report))
    return dict(_branches(json.loads(report.read_text(encoding="utf-8"))))


def by_folder(modules: dict[str, Branches]) -> dict[str, Branches]:
    """Add up what was taken below each of `FOLDERS`."""
    found = {}
    for folder in FOLDERS:
        inside = [one for path, one in modules.items() if path.startswith(f"{folder}/")]
        found[folder] = Branches(sum(one.taken for one in inside), sum(one.total for one in inside))
    return found


def _settings(directory: Path) -> Path:
    """Write what coverage is told: the project's own exclusions, and these folders alone."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        excluded = tomllib.load(file)["tool"]["coverage"]["report"]["exclude_also"]
    lines = ["[run]", "branch = true", "parallel = true", f"data_file = {directory}/data"]
    lines += ["source =", *(f"    {ROOT / folder}" for folder in FOLDERS)]
    lines += ["[report]", "exclude_also =", *(f"    {pattern}" for pattern in excluded)]
    path = directory / "coverage.ini"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _start(settings: Path, part: tuple[str, ...]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest"]
    command += ["-q", "-x", "-p", "no:cacheprovider", *part]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _coverage(settings: Path, command: str, *options: str) -> None:
    arguments = [sys.executable, "-m", "coverage", command, f"--rcfile={settings}", *options]
    subprocess.run(arguments, cwd=ROOT, check=True)


def _branches(report: dict[str, Any]) -> Iterator[tuple[str, Branches]]:
    for path, found in report["files"].items():
        summary = found["summary"]
        yield path, Branches(summary["covered_branches"], summary["num_branches"])
