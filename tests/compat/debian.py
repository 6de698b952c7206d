"""Debian packages unpacked into a folder of the project: nothing is installed, root is not needed.

`apt-get` fetches the packages, and those of their dependencies that this machine lacks: a simulated
installation names them. `dpkg -x` unpacks them. Links that lead outside are bent, because packages
link their configuration to `/etc` and their libraries to each other, and neither is there when
nothing is installed.

Invariant: a folder made by `unpack` is complete; it is renamed into place as the last step.
"""

import getpass
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

# Python itself runs on these, so they are here; a second copy beside the first is a way to crash.
NEVER_UNPACKED = {"libc6", "libc-bin", "libgcc-s1", "dpkg", "apt", "perl-base"}
_PLANNED = re.compile(r"^Inst (\S+)", re.MULTILINE)  # a line of `apt-get --simulate`


class AptFailed(Exception):
    """apt-get or dpkg is not here, or could not do it; the text says which."""


def can_unpack() -> bool:
    """Tell whether this system has Debian's tools."""
    return all(shutil.which(tool) for tool in ("apt-get", "apt-cache", "dpkg"))


def unpack(choices: Sequence[Sequence[str]], tree: Path, *, dependencies: bool) -> None:
    """Unpack the first set of packages that this release has, and what they need, into `tree`.

    Raises:
        AptFailed: with what apt-get or dpkg said.
    """
    tree.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tree.parent) as scratch:
        folder = Path(scratch)
        apt = Apt(folder)
        try:
            apt.download(choices, dependencies=dependencies)
        except AptFailed:
            # The system's package lists are missing, or older than what the archive now holds.
            apt.use_own_lists()
            apt.download(choices, dependencies=dependencies)
        unpacked = folder / "tree"
        for archive in sorted(folder.glob("*.deb")):
            apt.run("dpkg", "-x", str(archive), str(unpacked))
        bend_links(unpacked)
        unpacked.rename(tree)


def bend_links(tree: Path) -> None:
    """Point the links of a tree at where their targets are, when the tree is nobody's root.

    A target is meant relative to the tree, and is written so that the tree may be moved. What the
    tree does not hold is taken from the system, if that has it: a dependency that is installed is
    not unpacked again. A link within the tree that is relative already stays as it is.
    """
    for folder, names, files in os.walk(tree):
        for path in (Path(folder, name) for name in (*names, *files)):
            if not path.is_symlink():
                continue
            wanted = Path(os.readlink(path))
            place = os.path.normpath(Path("/", path.relative_to(tree)).parent / wanted)
            here, there = os.path.lexists(tree / place[1:]), os.path.lexists(place)
            if there and not here:
                _point(path, place)
            elif wanted.is_absolute():  # also at what is not there yet, but may be put there later
                _point(path, os.path.relpath(tree / place[1:], path.parent))


def _point(link: Path, target: str) -> None:
    link.unlink()
    link.symlink_to(target)


class Apt:
    """apt-get in a folder of ours, first with the system's package lists, then with our own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._options: list[str] = []

    def use_own_lists(self) -> None:
        """Fetch the package lists into the folder; the system's are root's and stay as they are."""
        lists, cache = self._folder / "lists", self._folder / "cache"
        for place in (lists, cache):
            (place / "partial").mkdir(parents=True, exist_ok=True)
        settings = {
            "Dir::State::lists": str(lists),
            "Dir::Cache": str(cache),
            "APT::Sandbox::User": getpass.getuser(),
        }
        self._options = [word for name in settings for word in ("-o", f"{name}={settings[name]}")]
        self.run("apt-get", *self._options, "-q", "update")

    def download(self, choices: Sequence[Sequence[str]], *, dependencies: bool) -> None:
        """Fetch the archives of the first choice that can be had."""
        failures = []
        for packages in choices:
            try:
                lacking = self._lacking(packages) if dependencies else set()
                names = sorted({*packages, *lacking} - NEVER_UNPACKED)
                self.run("apt-get", *self._options, "-q", "download", *names)
                return
            except AptFailed as error:
                failures.append(str(error))
        raise AptFailed("\n".join(failures))

    def _lacking(self, packages: Sequence[str]) -> set[str]:
        """Return what an installation would bring along."""
        simulate = ("--simulate", "--no-install-recommends", "install")
        return set(_PLANNED.findall(self.run("apt-get", *self._options, *simulate, *packages)))

    def run(self, *command: str) -> str:
        """Run one command in the folder and return what it printed.

        Raises:
            AptFailed: with the last lines of what it printed.
        """
        environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        outcome = subprocess.run(
            command,
            cwd=self._folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if outcome.returncode:
            last = "\n".join(outcome.stdout.splitlines()[-5:])
            raise AptFailed(f"{' '.join(command[:6])} ... ended with {outcome.returncode}:\n{last}")
        return outcome.stdout
