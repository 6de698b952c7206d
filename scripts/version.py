"""The version of a build: a release's tag, or how many commits came after the last one.

    at tag v0.2.0                      0.2.0
    3 commits later                    0.2.1.dev3+g1a2b3c4
    the same, with changed files       0.2.1.dev3+g1a2b3c4.dirty
    no tag among the commits           0.1.0.dev57+g1a2b3c4
    no repository, as in an archive    0.1.0.dev0

hatchling runs this file when it builds or installs (`[tool.hatch.version]`). It needs no package,
so that no environment has one more. A source distribution keeps the version it was made with.

Source: none upstream; PEP 440.
"""

import re
import subprocess
from pathlib import Path
from typing import Final

FIRST: Final = "0.1.0"
"""The release that commits before the first tag lead to."""

GIT_SECONDS_MAX: Final = 10.0

_TAG: Final = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
_DESCRIBED: Final = re.compile(r"(?:(v[\d.]+)-(\d+)-g)?([0-9a-f]+)(-dirty)?")


def version_of(root: Path) -> str:
    """Return the version of the checkout or archive at `root`."""
    try:
        if Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return f"{FIRST}.dev0"  # an archive within another repository
        described = _git(
            root, "describe", "--tags", "--long", "--dirty", "--always", "--match", "v[0-9]*"
        )
        return version_from(described, int(_git(root, "rev-list", "--count", "HEAD")))
    except (OSError, subprocess.SubprocessError):
        return f"{FIRST}.dev0"


def version_from(described: str, commits_count: int) -> str:
    """Return the version for what `git describe` says.

    commits_count: of all commits; it counts where no tag does.
    Raises: ValueError for a tag that is no version.
    """
    found = _DESCRIBED.fullmatch(described)
    tag, after, commit, dirty = found.groups() if found else (described, "0", "", None)
    if tag is None:
        return f"{FIRST}.dev{commits_count}+g{commit}{'.dirty' if dirty else ''}"
    numbers = _TAG.fullmatch(tag)
    if numbers is None:
        raise ValueError(f"tag {tag} is no version: it has the form v1.2.3")
    major, minor, patch = map(int, numbers.groups())
    if int(after) == 0 and not dirty:
        return f"{major}.{minor}.{patch}"
    local = f"g{commit}{'.dirty' if dirty else ''}"
    return f"{major}.{minor}.{patch + 1}.dev{after}+{local}"


def _git(root: Path, *words: str) -> str:
    outcome = subprocess.run(
        ["git", "-C", str(root), *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=GIT_SECONDS_MAX,
    )
    return outcome.stdout.strip()
