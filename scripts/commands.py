"""The commands of `./dev`: one table, one function each.

Each command first asks `environment.py` for an interpreter that has everything in it. Then the
program that a command is about replaces this process: signals and the exit code are that program's
own. What runs before it runs as a child, which a signal ends too.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from scripts.environment import ALL, UP, WRITES_NO_BYTECODE, EnvironmentFailed, prepare_environment

ROOT = Path(__file__).resolve().parent.parent

UP_HELP = ROOT / "scripts" / "up_help.txt"
"""What `wakelog up --help` prints; `./dev docs` writes it."""

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("lint-imports", "--no-logo"),
    ("pytest", "-q", "tests/test_tidy.py", "tests/test_layout.py"),
)

NEED_UP_ONLY = frozenset({"up", "wheel"})
"""The commands for which the smaller lock is enough."""

FETCHED = ("browser", "etcd", "java", "prometheus", "spark")
"""The kinds of test that need something which `tests.compat.provision` fetches."""


class Command(NamedTuple):
    """One row of the table: what the usage text says and what runs."""

    arguments: str
    summary: str
    run: Callable[[Path, Sequence[str]], int]


def up(python: Path, arguments: Sequence[str]) -> int:
    """Become `wakelog up`, in the folder of the caller, to which its paths are relative."""
    _become(python, "-m", "wakelog", "up", *arguments)


def test(python: Path, arguments: Sequence[str]) -> int:
    """Run the tests with the accounting by kind that `tests/kinds.py` does.

    A run of everything fetches what it needs first, where its progress can be seen. In a run of a
    part, the tests that need something fetch it.
    """
    without, rest = split_without(arguments)
    if not rest:
        needed = [kind for kind in FETCHED if kind not in without]
        if needed and _run(python, "-m", "tests.compat.provision", *needed):
            return 1
        return _pytest(python, "--account", "--split", *arguments)
    return _pytest(python, "--account", *arguments)


def split_without(arguments: Sequence[str]) -> tuple[set[str], list[str]]:
    """Part the kinds that are left out from pytest's own arguments."""
    without: set[str] = set()
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--without":
            without.add(next(words, ""))
        elif word.startswith("--without="):
            without.add(word.partition("=")[2])
        else:
            rest.append(word)
    return without, rest


def check(python: Path, arguments: Sequence[str]) -> int:
    """Run every check even when one fails, so that one run shows all there is to mend."""
    if arguments:
        return _complain("check takes no arguments")
    worst = 0
    for tool, *options in CHECKS:
        print(f"dev: {' '.join((tool, *options))}", flush=True)
        worst = _run(python.parent / tool, *options) or worst
    return worst


def bench(python: Path, arguments: Sequence[str]) -> int:
    """Run the benchmarks, which are a package of their own."""
    return _module(python, "benchmarks", arguments)


def wheel(python: Path, arguments: Sequence[str]) -> int:
    """Build the wheel into `dist/` of this tree, and name it last."""
    os.chdir(ROOT)
    _become(python, "-m", "hatchling", "build", "-t", "wheel", *arguments)


def long(python: Path, arguments: Sequence[str]) -> int:
    """Run the tests too long for every day, and with more rounds those that have rounds.

    It takes an hour, reports each test as it ends, and what was measured at the end. `--role NAME`
    runs what kills and stops one role.
    """
    role, rest = split_role(arguments)
    chosen = ("-m", "kill", "-k", role) if role else ("-m", "long or kill or simulation or drawn")
    _pytest(python, "--long", "--account", "-v", *chosen, *rest)


def split_role(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Part the role that is asked for, empty for all, from pytest's own arguments."""
    role = ""
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--role":
            role = next(words, "")
        elif word.startswith("--role="):
            role = word.partition("=")[2]
        else:
            rest.append(word)
    return role, rest


def simulate(python: Path, arguments: Sequence[str]) -> int:
    """Crash the store on a simulated disk, a million times or as often as asked."""
    return _module(python, "tests.simulation", arguments)


def mutants(python: Path, arguments: Sequence[str]) -> int:
    """Plant known defects in a copy, one at a time, and name those that no test notices."""
    return _module(python, "tests.mutants", arguments)


def docs(python: Path, arguments: Sequence[str]) -> int:
    """Write the documents that are made from tables in the code."""
    return _module(python, "scripts.generate", arguments)


def pictures(python: Path, arguments: Sequence[str]) -> int:
    """Make the pictures of the console in docs/pictures, of a cluster that is made for them."""
    return _module(python, "tests.console.pictures", arguments)


COMMANDS = {
    "up": Command("[ARGS]", "start a name server and a broker here (wakelog up)", up),
    "test": Command("[--without KIND] [ARGS]", "every kind of test (ARGS go to pytest)", test),
    "check": Command("", "ruff, mypy, import-linter, tidy", check),
    "bench": Command("[ARGS]", "benchmarks, side by side with RocketMQ's broker", bench),
    "long": Command("[--role NAME] [ARGS]", "the long runs: more kills, more seeds", long),
    "simulate": Command("[ARGS]", "crash a store on a simulated disk, over and over", simulate),
    "mutants": Command("[NAME ...]", "plant defects in a copy, and see what notices them", mutants),
    "wheel": Command("", "build dist/wakelog-VERSION-TAG.whl", wheel),
    "docs": Command("", "write the documents that are made from code", docs),
    "pictures": Command("", "make the pictures of the console again", pictures),
}


def main(arguments: Sequence[str]) -> int:
    """Run one command; without one, print what there is."""
    if not arguments or arguments[0] in ("help", "-h", "--help"):
        print(usage())
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        return _complain(f"no command {name!r}\n{usage()}")
    if name == "up" and not {"-h", "--help"}.isdisjoint(rest):
        print(UP_HELP.read_text(encoding="utf-8"), end="")  # without an environment, too
        return 0
    try:
        python = prepare_environment(ROOT, UP if name in NEED_UP_ONLY else ALL)
        # This tree is compiled once after each change, whatever the caller's habit: a start from
        # source takes up to 0.4 s of CPU more, in what the benchmarks measure, too.
        os.environ.pop(WRITES_NO_BYTECODE, None)
        return COMMANDS[name].run(python, rest)
    except EnvironmentFailed as failure:
        return _complain(str(failure))
    except KeyboardInterrupt:
        return 130  # what a shell reports for SIGINT


def usage() -> str:
    """Give the table as text."""
    rows = [(f"./dev {name} {row.arguments}", row.summary) for name, row in COMMANDS.items()]
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"{left:<{width}}  {right}" for left, right in rows)


def _pytest(python: Path, *options: str) -> NoReturn:
    os.chdir(ROOT)
    _become(python, "-m", "pytest", *options)


def _module(python: Path, module: str, arguments: Sequence[str]) -> int:
    """Run a module of this repository, or say that there is nothing yet."""
    place = ROOT.joinpath(*module.split("."))
    if not (place / "__main__.py").is_file() and not place.with_suffix(".py").is_file():
        return _complain(f"{module} is not in this tree yet")
    os.chdir(ROOT)
    _become(python, "-m", module, *arguments)


def _become(program: Path, *arguments: str) -> NoReturn:
    sys.stdout.flush()
    os.execv(program, [str(program), *arguments])


def _run(*command: str | Path) -> int:
    """Run one tool in the root and wait for it; whatever ends this wait ends the tool."""
    with subprocess.Popen([str(part) for part in command], cwd=ROOT) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            raise


def _complain(message: str) -> int:
    print(f"dev: {message}", file=sys.stderr)
    return 1
