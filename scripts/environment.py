"""The environment in `.venv`: made once, stamped, and reused while its stamp holds.

Every package comes from a lock, hash-checked: `requirements-up.lock` has what `./dev up` needs, and
`requirements.lock` that and what all other commands need. `uv` installs them where it is on PATH,
else venv and pip do. wakelog itself is installed editable, with the build back end that the lock
has already brought, so that nothing outside the lock decides what runs. The one exception is
crcmod, which exists only as a source archive: pip fetches setuptools to build it, and it falls back
to plain Python by itself where there is no C compiler. So does wakelog. Its library is built again
when its sources have changed.

Invariants:
- The stamp is written last: an interrupted installation is finished by the next command.
- Two commands at once do not install into each other: a lock file in `.cache` orders them.
- Whatever fails ends in `EnvironmentFailed`, whose text says the cause and the remedy.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from wakelog.compiled.build import installed_compilers
from wakelog.compiled.source import LIBRARY_NAME, is_current

PYTHON_MIN = (3, 11)
PYTHON_MAX = (3, 13)
STAMP_NAME = "wakelog-environment.json"
OUTPUT_LINES_MAX = 15  # of a failed installer; the whole of it stays in the log
LINE_LENGTH_MAX = 90  # of those that are shown while it works
PROGRESS_SECONDS = 5.0  # between two lines that say what an installer is at

SPARE_COMPILER = "ziglang"
"""Tests build the library in C; this is for a machine without a compiler, and has 380 MB."""

# What a broker imports, and what it imports once there is much to do. Nothing else is compiled for
# `./dev up`: pip takes half as long for that as for all the rest. A start from source takes 2 s of
# CPU more, and where PYTHONDONTWRITEBYTECODE is set (as in many a container) so does each one after
# it.
IMPORTS = """
from wakelog.actors.ray.fast_start.worker_template import import_actors
import_actors()
import wakelog.cli.app
wakelog.cli.app.program.find("up")
"""
WRITES_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


class Lock(NamedTuple):
    """A lock file, and how much disk its packages take."""

    name: str
    size_mb: int


UP = Lock("requirements-up.lock", 400)
ALL = Lock("requirements.lock", 1_400)
"""Holds every package of `UP`, in the same version."""

LEFT_OUT = (
    "ray/dashboard/client",  # the pages of a dashboard that is not started
    "ray/jars",  # to run actors in Java
    "ray/rllib",  # reinforcement learning, which no other part of Ray imports
)
"""What `./dev up` takes out of Ray after the installation, 50 MB: none of it can be used here."""

# What an installer prints when it fails, and what to do about it; the first match is told.
REMEDIES = (
    (("No space left on device",), f"the disk is full: all packages take about {ALL.size_mb} MB"),
    (
        ("ensurepip", "No module named venv"),
        "this Python has no venv module: on Debian or Ubuntu `apt-get install python3-venv`,"
        " or put `uv` on PATH",
    ),
    (("No module named pip",), "the environment is incomplete: remove .venv and try again"),
    (
        ("DO NOT MATCH THE HASHES", "Hash mismatch"),
        "a package is not the one that the lock names: look at the index or proxy that pip uses",
    ),
    (
        ("command 'gcc' failed", "unable to execute", "Python.h: No such file", "error: Microsoft"),
        "a package had to be compiled and there is no compiler: on Debian or Ubuntu"
        " `apt-get install gcc python3-dev`",
    ),
    (
        (
            "Temporary failure in name resolution",
            "Max retries exceeded",
            "CERTIFICATE_VERIFY_FAILED",
            "Connection refused",
            "Failed to fetch",
            "timed out",
        ),
        "the package index did not answer: look at the network, or at the proxy and index that pip"
        " is configured with",
    ),
    (
        ("No matching distribution found", "has no wheels with a matching"),
        "a package has no build for this Python or this machine: use Python 3.11 to 3.13 on Linux"
        " (x86-64, aarch64) or macOS",
    ),
)


class EnvironmentFailed(Exception):
    """The environment cannot be made here; the text gives cause and remedy."""


def prepare_environment(root: Path, lock: Lock = ALL) -> Path:
    """Return the interpreter of `.venv`, making or refreshing the environment where needed.

    An environment with the packages of `ALL` serves those who want less.

    Raises:
        EnvironmentFailed: with a text for the user.
    """
    check_version(sys.version_info[:2])
    environment = root / ".venv"
    python = environment / "bin" / "python"
    if not _is_current(root, environment, lock):
        with _turn(root / ".cache"):
            _bring_up_to_date(root, environment, lock)
    _keep_library(root, python)
    return python


def _keep_library(root: Path, python: Path) -> None:
    """Have wakelog's library built of its sources as they are, or say what runs without it."""
    folder = root / "wakelog" / "compiled"
    if not folder.is_dir() or is_current(folder / LIBRARY_NAME, folder):
        return
    command = [str(python), "-m", "wakelog.compiled.build"]
    outcome = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if outcome.returncode:
        _say(f"{outcome.stderr.strip()}; plain Python runs")


def check_version(version: tuple[int, int]) -> None:
    """Refuse a Python that wakelog's dependencies have no builds for."""
    if not PYTHON_MIN <= version <= PYTHON_MAX:
        raise EnvironmentFailed(
            f"this is Python {version[0]}.{version[1]}; wakelog needs 3.11, 3.12 or 3.13"
            " (WAKELOG_PYTHON=/path/to/python names one)"
        )


def wanted_stamp(root: Path, environment: Path, lock: Lock = ALL) -> dict[str, str]:
    """Say what an environment for this tree is made of, in words that can be compared."""
    return {
        "lock": _digest(root / lock.name),
        "project": _digest(root / "pyproject.toml"),
        "place": str(environment),  # an environment does not survive being moved
        "python": _wanted_python(environment),
    }


def read_stamp(environment: Path) -> dict[str, str] | None:
    """Return what the environment was made of; None where that is not known."""
    try:
        stamp = json.loads((environment / STAMP_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return stamp if isinstance(stamp, dict) else None


def remedy_for(output: str) -> str:
    """Find the cause of a failed installation in what the installer printed."""
    for symptoms, remedy in REMEDIES:
        if any(symptom.lower() in output.lower() for symptom in symptoms):
            return remedy
    return "the installer's words above say why"


def _wanted_python(environment: Path) -> str:
    """Name the Python to use: the one WAKELOG_PYTHON asks for, else the environment's own."""
    own = _own_version(environment)
    if own is not None and not os.environ.get("WAKELOG_PYTHON"):
        return own
    return ".".join(str(part) for part in sys.version_info[:3])


def _own_version(environment: Path) -> str | None:
    """Read the version an existing environment was made with, if its interpreter still runs."""
    if not os.access(environment / "bin" / "python", os.X_OK):
        return None  # also when the Python it links to is gone
    try:
        lines = (environment / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    settings = {key.strip(): value.strip() for key, _, value in (x.partition("=") for x in lines)}
    return settings.get("version") or settings.get("version_info")


def _is_current(root: Path, environment: Path, lock: Lock) -> bool:
    if _own_version(environment) is None:
        return False
    stamp = read_stamp(environment)
    return any(stamp == wanted_stamp(root, environment, each) for each in (lock, ALL))


def _bring_up_to_date(root: Path, environment: Path, lock: Lock) -> None:
    if _is_current(root, environment, lock):
        return  # another command has made it while this one waited
    if _own_version(environment) is None:
        _check_space(root, lock)
    wanted = wanted_stamp(root, environment, lock)
    stamp = read_stamp(environment) or {}
    log_path = root / ".cache" / "environment.log"
    with open(log_path, "w", encoding="utf-8") as log:
        installer = Installer(environment, log, compiles=lock is not UP)
        moved = stamp.get("place", wanted["place"]) != wanted["place"]
        if moved or _own_version(environment) != wanted["python"]:
            installer.create(wanted["python"])
            stamp = {}
        if any(stamp.get(key) != wanted[key] for key in ("lock", "python")):
            _say(
                f"installing what {lock.name} names with {installer.name} (about {lock.size_mb} MB)"
            )
            if lock is not UP:
                installer.make_whole()
            installer.install("--require-hashes", "-r", str(_needed(root, lock)))
            if lock is UP:
                installer.leave_out()
        installer.install("--no-deps", "--no-build-isolation", "-e", str(root))
        installer.keep_compiled()
    text = json.dumps(wanted_stamp(root, environment, lock), indent=1)
    (environment / STAMP_NAME).write_text(text, encoding="utf-8")
    _say(f"environment ready: .venv with Python {wanted['python']}")


def _needed(root: Path, lock: Lock) -> Path:
    """Return a file with what a lock names, without the spare compiler where there is one."""
    whole = root / lock.name
    if lock is UP or not any(installed_compilers()):
        return whole
    text = whole.read_text(encoding="utf-8")
    needed = root / ".cache" / lock.name
    pattern = rf"^{SPARE_COMPILER}==.*\n(?: .*\n)*"
    needed.write_text(re.sub(pattern, "", text, flags=re.MULTILINE), encoding="utf-8")
    return needed


def _check_space(root: Path, lock: Lock) -> None:
    """Refuse a disk that cannot have the packages: installers do not always say so."""
    free_mb = shutil.disk_usage(root).free // 1_000_000
    if free_mb < lock.size_mb:
        raise EnvironmentFailed(
            f".venv needs about {lock.size_mb} MB, and the disk of {root} has {free_mb} MB free:"
            " free some, or clone to another disk"
        )


class Installer:
    """uv where it is on PATH, else pip, over one environment; a uv that fails gives way to pip."""

    def __init__(self, environment: Path, log: TextIO, *, compiles: bool = True) -> None:
        """compiles: pip compiles all that it installs; uv never does."""
        self._environment = environment
        self._compiles = compiles
        self._python = environment / "bin" / "python"
        self._log = log
        self._uv = shutil.which("uv")

    @property
    def name(self) -> str:
        """Name the program at work."""
        return "uv" if self._uv else "pip"

    def create(self, version: str) -> None:
        """Make an empty environment, in place of one that does not fit."""
        _say(f"making .venv with Python {version}")
        base = getattr(sys, "_base_executable", sys.executable)  # never the one being replaced
        if self._environment.exists():
            self._check_replaceable(base)
            self._remove()
        # With pip in it even where uv installs, since people reach for pip in an environment.
        try:
            self._must((base, "-m", "venv", str(self._environment)), or_uv=self._uv_venv(base))
        except EnvironmentFailed:
            shutil.rmtree(self._environment, ignore_errors=True)  # half would be taken for one
            raise

    def _remove(self) -> None:
        if self._environment.is_symlink():
            self._environment.unlink()  # what it leads to is somebody else's
        else:
            shutil.rmtree(self._environment)

    def install(self, *options: str) -> None:
        """Install what pip's options name."""
        if self._uv:
            into = ("pip", "install", "--python", str(self._python))
            if self._try((self._uv, *into, *options)) is None:
                return
            _say("uv could not install it (.cache/environment.log says why); trying pip")
            self._uv = None
        plain = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
        if not self._compiles:
            plain.append("--no-compile")
        self._must((str(self._python), "-m", "pip", "install", *plain, *options))

    def leave_out(self) -> None:
        """Remove the parts of packages that a broker cannot use."""
        for packages in self._packages():
            for name in LEFT_OUT:
                shutil.rmtree(packages / name, ignore_errors=True)

    def make_whole(self) -> None:
        """Have a package that lacks a part installed again: an installer sees its version only."""
        for packages in self._packages():
            lacking = {
                name.partition("/")[0] for name in LEFT_OUT if not (packages / name).exists()
            }
            for name in sorted(name for name in lacking if (packages / name).exists()):
                own = (str(self._python), "-m", "pip", "uninstall", "--yes", name)
                by_uv = (self._uv or "", "pip", "uninstall", "--python", str(self._python), name)
                self._must(by_uv if self._uv else own)

    def _packages(self) -> list[Path]:
        return list(self._environment.glob("lib/python3*/site-packages"))

    def keep_compiled(self) -> None:
        """Import what a start imports, so that Python keeps it compiled; the log has what fails."""
        self._try((str(self._python), "-c", IMPORTS))

    def _uv_venv(self, base: str) -> tuple[str, ...] | None:
        return (self._uv, "venv", "--python", base, str(self._environment)) if self._uv else None

    def _check_replaceable(self, base: str) -> None:
        if Path(base).is_relative_to(self._environment):
            raise EnvironmentFailed(".venv has to be made anew: remove it and try again")

    def _must(self, command: Sequence[str], or_uv: Sequence[str] | None = None) -> None:
        output = self._try(command)
        if output is not None and or_uv is not None:
            shutil.rmtree(self._environment, ignore_errors=True)
            output = self._try(or_uv)
        if output is not None:
            last = "\n".join(output.splitlines()[-OUTPUT_LINES_MAX:])
            raise EnvironmentFailed(
                f"the environment could not be made; the installer said:\n{last}\n"
                f"cause and remedy: {remedy_for(output)}\n(all of it: {self._log.name})"
            )

    def _try(self, command: Sequence[str]) -> str | None:
        """Run one command; return its output if it failed, None if it went well."""
        # uv brings certificates of its own; pip trusts the system's, and so must uv, or it fails
        # behind a proxy through which pip works. The variable's name differs between versions.
        trust = {"UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true"}
        lines = []
        began_seconds = shown_seconds = time.monotonic()
        self._log.write(f"$ {' '.join(command)}\n")
        with subprocess.Popen(
            command,
            env={**trust, **os.environ, WRITES_NO_BYTECODE: ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            for line in process.stdout or ():
                lines.append(line)
                self._log.write(line)
                now_seconds = time.monotonic()
                if now_seconds - shown_seconds >= PROGRESS_SECONDS:
                    shown_seconds = now_seconds
                    _say(f"{now_seconds - began_seconds:3.0f} s: {line.strip()[:LINE_LENGTH_MAX]}")
        return "".join(lines) or "no output" if process.returncode else None


@contextmanager
def _turn(cache: Path) -> Iterator[None]:
    """Let one installation run at a time; the kernel frees the lock if its holder dies."""
    try:
        cache.mkdir(exist_ok=True)
        lock = open(cache / "environment.lock", "w", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise EnvironmentFailed(
            f"{cache} cannot be written: {error.strerror}; .cache and .venv are made inside of the"
            " clone, so clone where you may write"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            _say("another command is making the environment; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise EnvironmentFailed(f"{path} cannot be read: {error.strerror}") from error


def _say(line: str) -> None:
    print(f"dev: {line}", file=sys.stderr, flush=True)
