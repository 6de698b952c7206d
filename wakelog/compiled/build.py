"""Builds the library beside its sources: `python -m wakelog.compiled.build`.

It takes the first C compiler of $CC, cc, gcc, clang and the one that the package `ziglang` brings.
The sources declare what they use of Python, so that no header of Python is needed. The result holds
the digest of its sources: one of other sources is built again, and never loaded.

Only the standard library is imported: `./dev` and the build of a wheel run this file.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from wakelog.compiled.source import FOLDER, LIBRARY, LIBRARY_NAME, is_current, source_digest

COMPILE_SECONDS_MAX: Final = 120.0
"""zig builds its own libraries at the first call, which takes half a minute."""

FLAGS: Final = ("-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden")
OUTPUT_LINES_MAX: Final = 3

NO_COMPILER: Final = "there is no C compiler: install cc, or `pip install ziglang`"


class BuildFailed(Exception):
    """The library cannot be built here; the text gives cause and remedy."""


def installed_compilers() -> Iterator[list[str]]:
    """Yield the commands of the C compilers of this machine, the preferred one first."""
    if os.environ.get("CC"):
        yield shlex.split(os.environ["CC"])
    yield from ([found] for name in ("cc", "gcc", "clang") if (found := shutil.which(name)))


def compilers() -> Iterator[list[str]]:
    """Yield the commands of the C compilers that are there, that of `ziglang` last."""
    yield from installed_compilers()
    if find_spec("ziglang") is not None:
        yield [sys.executable, "-m", "ziglang", "cc"]


def build(library: Path = LIBRARY, *options: str) -> Path:
    """Build the library, unless it is current, and return where it is.

    options: for the compiler, beside the usual ones.
    Raises: BuildFailed.
    """
    if not options and is_current(library):
        return library
    failure = NO_COMPILER
    for compiler in compilers():
        failure = _compile([*compiler, *FLAGS, *options], library)
        if not failure:
            return library
    raise BuildFailed(failure)


def _compile(command: list[str], library: Path) -> str:
    """Run one compiler; return why it failed, "" if it did not."""
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    sources = [str(path) for path in sorted(FOLDER.glob("*.c"))]
    try:
        # Renamed in: a process that starts meanwhile loads the old one or the new one.
        with tempfile.TemporaryDirectory(prefix=".build-", dir=library.parent) as scratch:
            made = Path(scratch) / LIBRARY_NAME
            command += [f"-DSOURCE_DIGEST={source_digest()}", "-o", str(made), *sources]
            outcome = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMPILE_SECONDS_MAX,
                check=False,
            )
            if outcome.returncode:
                said = outcome.stderr.strip().splitlines()[:OUTPUT_LINES_MAX]
                return f"{command[0]} failed: {' / '.join(said) or outcome.returncode}"
            made.replace(library)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]} failed: {error}"
    return ""


def main() -> int:
    """Build it, and say where it is or why not."""
    try:
        sys.stdout.write(f"{build()}\n")
    except BuildFailed as failure:
        sys.stderr.write(f"wakelog: the compiled library was not built: {failure}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
