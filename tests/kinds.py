"""Pytest plug-in that accounts for the tests by kind: what ran, what failed, what was left out.

A kind says what a test needs; it is a marker, and a test without one is `unit`. A test with several
belongs to the one furthest down the table, the most demanding.

With `--account`, which `./dev test` gives, a run ends with the table of kinds. Below it stands what
tests recorded as the property `said`, and the names of what failed in any process. The very last
line is `N passed, N failed`. A skip, or an expected kind of which nothing ran, fails the run unless
`--without KIND` left it out. A test suite that shrinks unnoticed is the failure this prevents.

With `--split` as well, two more pytest processes run at the same time, since much of what tests do
is to wait. Each kind has its process, so that tests which share a cluster, Spark or a browser are
together. The others write their tallies to a file (`--share NUMBER FILE`), and the table of this
one holds all.

None waits long for the others: tests that share nothing with other modules, and are of a kind that
`is_free`, run wherever there is time. Each process takes them, module by module, by a file in the
folder of the tallies, but none of a folder that it has `LEFT_TO_OTHERS`. All run what is theirs
alone first, then the most demanding of the free ones, and the short modules of plain Python last:
so all end at the same time. What modules share ends with the last test that uses it, since a
deployment that idles takes a tenth of a small machine.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from _pytest.mark import ParameterSet

from tests.leftovers import SESSION_VARIABLE
from tests.rewriting import rewrite_part


class Kind(NamedTuple):
    """One kind of test."""

    meaning: str
    expected: bool = True
    """Whether a complete run must contain tests of this kind: true once the tree holds some."""
    process: int = 0
    """Which process of a split run has these tests; 0 is the one that starts the others."""
    first: bool = False
    """Whether these tests run before all others, those of a more demanding kind among them."""
    is_free: bool = False
    """Whether those that share nothing with other modules may run in other processes, too."""


KINDS = {
    "unit": Kind("plain Python; no process, no network", process=1, is_free=True),
    "golden": Kind("reads or writes the stores of tests/golden", process=1, is_free=True),
    "simulation": Kind("seeded runs over a simulated disk and clock", process=1, is_free=True),
    "process": Kind("starts processes of its own", process=1, is_free=True),
    "etcd": Kind("runs members of a real etcd cluster", process=1),
    "browser": Kind("runs Chromium over the console", process=1),
    "ray": Kind("starts a Ray cluster on this machine"),
    # py4j waits by select, which knows no descriptor above 1,023; each Ray that a test starts in
    # this process leaves some dozen open.
    "spark": Kind("runs Spark on this machine", process=2, first=True),
    "java": Kind("runs the real RocketMQ 4.9.3 or its client", is_free=True),
    "prometheus": Kind("runs Prometheus or promtool", process=1),
    "image": Kind("builds the image and starts containers, as root", process=1, expected=False),
    "kill": Kind("kills processes at random moments", expected=False),
}

MODIFIERS = {
    "slow": "takes more than a quarter of a second",
    "long": "runs only in ./dev long",
    "drawn": "draws its examples: set by itself, and with many more of them in ./dev long",
    "daily": "at which cluster or deployment it runs outside of ./dev long, or `in turn`",
}


TURNS = {
    "cluster": ("real", "notifications"),
    "supervised": ("notifications", "references"),
    "wire": ("local", "real"),
    "either": ("window", "window_without_script"),
}
"""Fixtures whose tests run for each of some parameters every day, unless the marker `daily` says
for which alone. `in turn` gives the tests of a module the one and the other."""

LEFT_TO_OTHERS = {
    0: frozenset({"broker", "dispatchers", "protocol", "storage", "telemetry"}),
    2: frozenset(
        {
            *("audit", "broker", "celery", "compiled", "console", "dispatchers", "faststream"),
            *("filter", "nameserver", "otel", "protocol", "tasks", "telemetry", "testing"),
        }
    ),
}
"""Folders of which a process of a split run collects nothing: to collect all takes 10 s of a
processor. None of its kinds is there, and there is enough else to do until the others end."""


@dataclass
class Tally:
    """What happened to the tests of one kind."""

    ran: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def add(self, other: "Tally") -> None:
        """Add what happened to others of the kind."""
        self.ran += other.ran
        self.failed += other.failed
        self.skipped += other.skipped
        self.seconds += other.seconds


@dataclass
class Account:
    """The tallies of one run, and what the run was allowed to leave out."""

    without: frozenset[str]
    complete: bool
    tallies: dict[str, Tally] = field(default_factory=lambda: {kind: Tally() for kind in KINDS})
    outside_tests: int = 0
    """Failures that belong to no test: a module that cannot be collected, a leftover."""
    failures: list[str] = field(default_factory=list)
    """What failed, by name: ids of tests, modules that cannot be collected, leftovers."""
    said: list[str] = field(default_factory=list)
    """Figures that tests recorded for the end of the run."""

    @property
    def failed(self) -> int:
        """Count what failed, whatever it belongs to."""
        return sum(tally.failed for tally in self.tallies.values()) + self.outside_tests

    @property
    def passed(self) -> int:
        """Count the tests that ran and did not fail."""
        return sum(tally.ran - tally.failed for tally in self.tallies.values())

    def add(self, other: "Account") -> None:
        """Add the tallies of what another process ran."""
        for kind, tally in other.tallies.items():
            self.tallies[kind].add(tally)
        self.outside_tests += other.outside_tests
        self.failures += other.failures
        self.said += other.said

    def complaints(self) -> list[str]:
        """Say what is missing from the run, one line each; empty for a run in order."""
        found = []
        for name, tally in self.tallies.items():
            if name in self.without:
                continue
            if tally.skipped:
                found.append(f"{name}: {tally.skipped} skipped (--without {name} allows it)")
            elif self.complete and KINDS[name].expected and not tally.ran:
                found.append(f"{name}: nothing ran (--without {name} allows it)")
        return found

    def table(self) -> list[str]:
        """Draw the table of kinds."""
        rows = [("kind", "ran", "failed", "skipped", "seconds")]
        for name, tally in self.tallies.items():
            if name in self.without:
                rows.append((name, "-", "-", "-", "left out"))
            elif tally.ran or tally.skipped or KINDS[name].expected:
                counts = (str(tally.ran), str(tally.failed), str(tally.skipped))
                rows.append((name, *counts, f"{tally.seconds:.1f}"))
        return [
            "".join(f"{cell:<12}" if i == 0 else f"{cell:>9}" for i, cell in enumerate(row))
            for row in rows
        ]


def kinds_of(item: pytest.Item) -> list[str]:
    """Return the kinds that a test is marked with, in the order of the table."""
    marked = {mark.name for mark in item.iter_markers()}
    return [kind for kind in KINDS if kind in marked] or ["unit"]


def some_daily(apart: int, cases: Iterable[Any]) -> list[ParameterSet]:
    """Return parameters of which every so-manieth runs each day, and each in `./dev long`."""
    return [
        found if number % apart == 0 else found._replace(marks=[*found.marks, pytest.mark.long])
        for number, found in enumerate(map(_parameters_of, cases))
    ]


def _parameters_of(case: Any) -> ParameterSet:
    if isinstance(case, ParameterSet):
        return case
    return pytest.param(*case) if type(case) is tuple else pytest.param(case)


def leave_to_long_runs(items: Iterable[pytest.Item]) -> None:
    """Mark as long what a test that is marked `daily` does for other parameters."""
    found: dict[tuple[object, ...], dict[str, pytest.Item]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        if item.get_closest_marker("daily") is None or callspec is None:
            continue
        for fixture, kinds in TURNS.items():
            kind = callspec.params.get(fixture)
            if kind in kinds and not item.get_closest_marker("long"):
                others = sorted((x, str(y)) for x, y in callspec.params.items() if x != fixture)
                name = getattr(item, "originalname", item.name)
                found.setdefault((item.path, name, *others), {})[kind] = item
    numbers: dict[object, int] = {}
    for (path, *_), of_kind in found.items():
        number = numbers[path] = numbers.get(path, -1) + 1
        mark = next(iter(of_kind.values())).get_closest_marker("daily")
        assert mark is not None
        [where] = mark.args
        if where == "in turn":
            where = sorted(of_kind, reverse=True)[number % len(of_kind)]
        for kind, item in of_kind.items():
            if kind != where:
                item.add_marker("long")


def process_of(kinds: list[str]) -> int:
    """Return which process of a split run has a test of these kinds."""
    return next((KINDS[x].process for x in kinds if KINDS[x].first), KINDS[kinds[-1]].process)


def is_left_to_others(process: int, path: Path) -> bool:
    """Whether a path is a folder of which this process of a split run collects nothing."""
    is_of_tests = path.parent == Path(__file__).parent
    return is_of_tests and path.name in LEFT_TO_OTHERS.get(process, ())


def is_free(item: pytest.Item) -> bool:
    """Whether a test may run in any process of a split run: it shares nothing but its module."""
    is_kind_free = all(KINDS[kind].is_free for kind in kinds_of(item))
    return is_kind_free and isinstance(item, pytest.Function) and not shared_by(item)


def shared_by(item: pytest.Item) -> list[pytest.FixtureDef[Any]]:
    """Return the fixtures of a test that may be those of other modules, too."""
    if not isinstance(item, pytest.Function):
        return []
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    # Those of plug-ins have no place in the tree.
    own = [definition for found in fixtures for definition in found if definition.baseid]
    return [definition for definition in own if definition.scope in ("session", "package")]


class Claims:
    """Which process runs the free tests of a module: the first that makes its file."""

    def __init__(self, folder: Path) -> None:
        """folder: of all processes."""
        self._folder = folder / "claims"
        self._folder.mkdir(exist_ok=True)
        self._is_ours: dict[Path, bool] = {}

    def take(self, module: Path) -> bool:
        """Return whether this process runs them."""
        if module not in self._is_ours:
            name = module.as_posix().replace("/", "+")
            try:
                (self._folder / name).touch(exist_ok=False)
                self._is_ours[module] = True
            except FileExistsError:
                self._is_ours[module] = False
        return self._is_ours[module]


class OtherProcess:
    """A further pytest process of a split run, and what it printed."""

    def __init__(self, folder: Path, number: int, without: Iterable[str]) -> None:
        """Start it as a session of its own. folder: of all processes."""
        self._tallies = folder / f"tallies-{number}.json"
        self._output = folder / f"output-{number}"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["--share", str(number), str(self._tallies)]
        command += [f"--without={kind}" for kind in without]
        own = (SESSION_VARIABLE, "TMPDIR")
        env = {name: value for name, value in os.environ.items() if name not in own}
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                command, env=env, stdout=output, stderr=subprocess.STDOUT
            )

    def wait(self) -> Account | None:
        """Return its account once it has ended; None if it left none."""
        self._process.wait()
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._tallies.read_bytes(), type=Account)
        return None

    @property
    def has_failed(self) -> bool:
        """Whether its exit code says so; 0 may also be that of a process which others reaped."""
        return self._process.returncode != 0

    @property
    def output(self) -> str:
        """What it printed."""
        return self._output.read_text(errors="replace")

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("wakelog")
    group.addoption("--account", action="store_true", help="end with the table of kinds")
    group.addoption(
        "--without",
        action="append",
        default=[],
        metavar="KIND",
        choices=[*KINDS],
        help="leave a kind of test out, and say so: %(choices)s",
    )
    group.addoption("--split", action="store_true", help="run some kinds in further processes")
    group.addoption(
        "--share",
        nargs=2,
        metavar=("NUMBER", "FILE"),
        help="run the kinds of one of those processes; tallies go to FILE",
    )
    group.addoption("--long", action="store_true", help="the long runs as well")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    share = config.getoption("--share")
    if not share and not config.getoption("--split"):
        return None
    return True if is_left_to_others(int(share[0]) if share else 0, collection_path) else None


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in [(name, kind.meaning) for name, kind in KINDS.items()]:
        config.addinivalue_line("markers", f"{name}: {meaning}")
    for name, meaning in MODIFIERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.pluginmanager.register(Accountant(config), "wakelog-accountant")


class Accountant:
    """The plug-in's hooks that need to remember something between calls."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._kind_of: dict[str, str] = {}
        self._outcomes: dict[str, str] = {}
        without = frozenset(config.getoption("--without"))
        self.account = Account(without, complete=_is_complete(config))
        self._others: list[OtherProcess] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process = 0
        self._claims: Claims | None = None
        self._free: set[str] = set()
        self._ends_with: dict[str, list[pytest.FixtureDef[Any]]] = {}
        if config.getoption("--share"):
            number, tallies = config.getoption("--share")
            self._process = int(number)
            self._claims = Claims(Path(tallies).parent)
        elif config.getoption("--split"):
            self._folder = tempfile.TemporaryDirectory(prefix="split-")
            folder = Path(self._folder.name)
            self._claims = Claims(folder)
            numbers = {kind.process for kind in KINDS.values()} - {self._process}
            self._others = [OtherProcess(folder, number, without) for number in sorted(numbers)]

    def report_outside(self, failures: list[str]) -> None:
        """Count failures that belong to no test, and say what they are."""
        self.account.outside_tests += len(failures)
        self._config.get_terminal_writer().line()
        for failure in failures:
            self.account.failures.append(f"left behind: {failure}")
            self._config.get_terminal_writer().line(f"left behind: {failure}", red=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """In a split run, rewrite this process's part of the modules; the others do theirs."""
        if self._claims is not None:
            parts = 1 + max(kind.process for kind in KINDS.values())
            for folder in self._config.getini("testpaths"):
                rewrite_part(self._config, self._config.rootpath / folder, self._process, parts)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        others: list[pytest.Item] = []
        leave_to_long_runs(items)
        for item in items:
            kinds = kinds_of(item)
            self._kind_of[item.nodeid] = kinds[-1]
            if getattr(getattr(item, "function", None), "is_hypothesis_test", False):
                item.add_marker("drawn")
            is_left_out = (
                item.get_closest_marker("long") and not self._config.getoption("--long")
            ) or self.account.without.intersection(kinds)
            is_here = self._claims is None or process_of(kinds) == self._process
            if self._claims is not None and not is_left_out and is_free(item):
                self._free.add(item.nodeid)
            if not is_left_out and not is_here and item.nodeid in self._free:
                others.append(item)
            else:
                (dropped if is_left_out or not is_here else kept).append(item)
        # All of them together, so that what they share is started once.
        kept.sort(key=lambda item: not any(KINDS[x].first for x in kinds_of(item)))
        items[:] = [*self._longest_first(kept), *self._longest_first(others)]
        self._config.hook.pytest_deselected(items=dropped)

    def _longest_first(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Put free modules behind all others, the more demanding ones first."""
        ranks: dict[Path, int] = {}
        for item in items:
            is_bound = item.nodeid not in self._free
            rank = len(KINDS) if is_bound else list(KINDS).index(kinds_of(item)[-1])
            ranks[item.path] = max(rank, ranks.get(item.path, 0))
        return sorted(items, key=lambda item: -ranks[item.path])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which test is the last that uses a fixture of the session."""
        last = {one: item.nodeid for item in session.items for one in shared_by(item)}
        for definition, test in last.items():
            if definition.scope == "session":  # those of a package end with it
                self._ends_with.setdefault(test, []).append(definition)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """End what the session shares with its last test, in the order that pytest knows."""
        yield
        for definition in self._ends_with.pop(item.nodeid, ()):
            definition.finish(item._request)  # type: ignore[attr-defined]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run tests as pytest does, but for those that another process of a split run has."""
        if self._claims is None or session.testsfailed or session.config.option.collectonly:
            return None
        items = self._taken(session.items, self._claims)
        item = next(items, None)
        while item is not None:
            following = next(items, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            item = following
        return True

    def _taken(self, items: list[pytest.Item], claims: Claims) -> Iterator[pytest.Item]:
        """Yield the tests to run here; claim those of a module when the one before it is next."""
        for item in items:
            if item.nodeid not in self._free or claims.take(item.path):
                yield item

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.account.outside_tests += report.failed
        if report.failed:
            self.account.failures.append(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        tally = self.account.tallies[self._kind_of[report.nodeid]]
        tally.seconds += report.duration
        worst = max(self._outcomes.get(report.nodeid, ""), _outcome(report), key=_SEVERITY.index)
        self._outcomes[report.nodeid] = worst
        if report.when == "teardown":
            said = (value for name, value in report.user_properties if name == "said")
            self.account.said.extend(map(str, said))
            tally.ran += worst in ("passed", "failed")
            tally.failed += worst == "failed"
            if worst == "failed":
                self.account.failures.append(report.nodeid)
            tally.skipped += worst == "skipped"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Speak after all others, pytest's own summary included."""
        yield
        if self._config.getoption("--share"):
            _, tallies = self._config.getoption("--share")
            Path(tallies).write_bytes(msgspec.json.encode(self.account))
        if not self._config.getoption("--account"):
            return
        complaints = [*self._add_others(session), *self.account.complaints()]
        if session.exitstatus in _CUT_SHORT and not self.account.failed:
            complaints.append("the session was cut short")
        if complaints and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._print(complaints)

    def pytest_unconfigure(self) -> None:
        """End the other processes where no session came to its end."""
        for other in self._others:
            other.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _add_others(self, session: pytest.Session) -> list[str]:
        """Wait for the other processes, add what they ran, and return what is missing of it."""
        missing: list[str] = []
        if session.exitstatus in _CUT_SHORT:
            return missing
        for other in self._others:
            account = other.wait()
            if other.has_failed or account is None or account.failed:
                self._config.get_terminal_writer().line(other.output)
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            if account is None:
                missing.append("a process ended without its tallies")
            else:
                self.account.add(account)
        return missing

    def _print(self, complaints: list[str]) -> None:
        counts = f"{self.account.passed} passed, {self.account.failed + len(complaints)} failed"
        refusals = [f"not accepted: {complaint}" for complaint in complaints]
        writer = self._config.get_terminal_writer()
        failures = [f"failed: {name}" for name in self.account.failures]
        ends = [*self.account.said, *failures, *refusals, counts]
        for line in ["", *self.account.table(), "", *ends]:
            writer.line(line)


_CUT_SHORT = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
_SEVERITY = ["", "passed", "skipped", "failed"]


def _outcome(report: pytest.TestReport) -> str:
    """Name the outcome; an expected failure counts as a skip, since nothing was shown."""
    return "skipped" if report.skipped or hasattr(report, "wasxfail") else report.outcome


def _is_complete(config: pytest.Config) -> bool:
    """Tell a run of everything from one that asked for a part."""
    selected = config.option.keyword or config.option.markexpr or config.option.deselect
    partial = getattr(config.option, "lf", False) or config.option.collectonly or selected
    return config.args_source == pytest.Config.ArgsSource.TESTPATHS and not partial
