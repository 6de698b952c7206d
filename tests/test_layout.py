"""The shape of the repository: links, lock, CI, and what a wheel holds."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINKS = ("actors", "dispatchers", "storage")


def requirement_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=~! ;]", text)[0].lower() for text in requirements}


@pytest.mark.parametrize("name", LINKS)
def test_a_link_at_the_root_leads_into_the_package(name: str) -> None:
    assert os.readlink(ROOT / name) == f"wakelog/{name}"
    assert (ROOT / name / "__init__.py").is_file()


def extras(*names: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [each for name in names for each in project["optional-dependencies"][name]]
    return [*project["dependencies"], *(each for each in found if not each.startswith("wakelog"))]


@pytest.mark.parametrize(
    ("name", "extra_names", "groups"),
    [
        ("requirements.lock", ["ray", "ray-data", "spark"], ["build", "dev"]),
        ("requirements-up.lock", ["console", "ray", "testing"], ["build"]),
    ],
)
def test_a_lock_holds_every_dependency_with_hashes_and_no_index(
    name: str, extra_names: list[str], groups: list[str]
) -> None:
    groups_of = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    grouped = [each for group in groups for each in groups_of[group] if isinstance(each, str)]
    lock = (ROOT / name).read_text()
    pinned = set(re.findall(r"^([a-z0-9._-]+)(?:\[[^\]]*\])?==", lock, re.MULTILINE))
    assert requirement_names([*extras(*extra_names), *grouped]) <= pinned
    entries = re.split(r"^(?=[a-z0-9._-]+==)", lock, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in lock


def test_ci_runs_the_commands_that_a_developer_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert os.access(ROOT / "dev", os.X_OK)
    lines = script.read_text().splitlines()
    assert [line for line in lines if line.startswith("./dev")] == ["./dev check", "./dev test"]


def test_importing_the_package_imports_none_of_its_folders() -> None:
    program = "import sys, wakelog; print([x for x in sys.modules if x.startswith('wakelog.')])"
    outcome = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert outcome.stdout.strip() == "[]"
