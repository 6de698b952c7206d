"""Patches as the files of this folder have them: read, and applied to a text.

A hunk is found by what it replaces, not by line numbers. So a patch fits as long as the code around
its defect is what it was.
"""

import shlex
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
NOTICED_BY = "Noticed by: "


class Hunk(NamedTuple):
    """Lines of one file, and what stands there instead with the defect."""

    path: str
    old: str
    new: str


class DoesNotFit(Exception):
    """The code that a patch changes is not there once."""


class Patch(NamedTuple):
    """One defect. tests: what pytest is given to notice it."""

    name: str
    meaning: str
    tests: tuple[str, ...]
    hunks: tuple[Hunk, ...]

    def plant(self, root: Path) -> dict[Path, str]:
        """Put the defect into the tree at `root`; return what was there before.

        Raises: DoesNotFit, with nothing changed.
        """
        texts: dict[Path, str] = {}
        for hunk in self.hunks:
            path = root / hunk.path
            text = texts.get(path) or path.read_text()
            if (count := text.count(hunk.old)) != 1:
                raise DoesNotFit(f"{self.name}: {hunk.path} has its lines {count} times")
            texts[path] = text.replace(hunk.old, hunk.new)
        before = {path: path.read_text() for path in texts}
        for path, text in texts.items():
            path.write_text(text)
        return before


def read_patch(path: Path) -> Patch:
    """Read a file of this folder. Raises: ValueError if it names no tests or changes nothing."""
    head, _, rest = path.read_text().partition("\n--- a/")
    meaning, _, tests = head.strip().partition(f"\n{NOTICED_BY}")
    hunks: list[Hunk] = []
    for file in rest.split("\n--- a/"):
        name, *parts = file.split("\n@@ ")
        for part in parts:
            lines = [line or " " for line in part.removesuffix("\n").split("\n")[1:]]
            old, new = (
                "".join(f"{line[1:]}\n" for line in lines if line[0] in kept)
                for kept in (" -", " +")
            )
            hunks.append(Hunk(name.split("\n")[0], old, new))
    if not meaning or not tests or not hunks:
        raise ValueError(f"{path.name}: what it means, what notices it, and what it changes")
    return Patch(path.stem, meaning, tuple(shlex.split(tests)), tuple(hunks))


def all_patches() -> list[Patch]:
    """Return the patches of this folder, by name."""
    return [read_patch(path) for path in sorted(FOLDER.glob("*.patch"))]
