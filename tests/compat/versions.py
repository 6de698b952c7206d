"""Versions of wakelog whose commands a test runs: this one, and one from the history.

An earlier one runs with the packages of this environment: its own were others, maybe.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from tests.compat.provision import ROOT

COMMIT_VARIABLE: Final = "WAKELOG_EARLIER"
"""In the environment: the commit of the earlier version, in place of the last tag."""

COMMITS_BACK: Final = 100
"""How far back the earlier version is where no tag names one."""


class NoHistory(Exception):
    """This tree has no earlier version; the text says why."""


class Version(NamedTuple):
    """name: for people. tree: the folder that has the package."""

    name: str
    tree: Path

    @property
    def env(self) -> dict[str, str]:
        """The environment of its commands: the folder goes before what is installed."""
        return {**os.environ, "PYTHONPATH": str(self.tree)}

    @property
    def drains(self) -> bool:
        """Whether its brokers have --drain-seconds."""
        return "drain_seconds" in (self.tree / "wakelog" / "cli" / "start.py").read_text()


THIS: Final = Version("this", ROOT)


def earlier_version(folder: Path) -> Version:
    """Unpack the earlier version into a folder, with its library in C if there is a compiler.

    Raises: NoHistory.
    """
    if shutil.which("git") is None:
        raise NoHistory("git is not here")
    commit = os.environ.get(COMMIT_VARIABLE) or _last_tag() or f"HEAD~{COMMITS_BACK}"
    name = _git("rev-parse", "--short", f"{commit}^{{commit}}")
    if not name:
        raise NoHistory(f"this repository does not have {commit}: a shallow clone, or an archive")
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit, "wakelog"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    version = Version(name, folder)
    build = [sys.executable, "-m", "wakelog.compiled.build"]
    subprocess.run(build, env=version.env, cwd=folder, capture_output=True, check=False)
    return version


def _last_tag() -> str:
    return _git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")


def _git(*words: str) -> str:
    """Return what git says, "" if it refuses."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
