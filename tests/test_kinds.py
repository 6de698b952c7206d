"""The accounting by kind, seen from outside: pytest runs on small trees of tests."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import kinds

KINDS_AND_MODIFIERS = ("--account", "-p", "tests.kinds", "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def only_unit_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep these tests true while the table of kinds grows, and quick while the plug-ins do."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name, kind in kinds.KINDS.items():
        monkeypatch.setitem(kinds.KINDS, name, kind._replace(expected=name == "unit"))


def run(pytester: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    """Run pytest in a tree whose only test module has this source."""
    pytester.makeini("[pytest]\ntestpaths = .")
    pytester.makepyfile(f"import pytest\n{source}")
    return pytester.runpytest_inprocess(*KINDS_AND_MODIFIERS, *options)


PASSING = "def test_a(): pass\n"
FAILING = "def test_b(): assert False\n"
SKIPPED = "@pytest.mark.java\n@pytest.mark.skip\ndef test_c(): pass\n"
EXPECTED_FAILURE = "@pytest.mark.xfail\ndef test_d(): assert False\n"
BROKEN_TEARDOWN = "@pytest.fixture\ndef f():\n yield\n assert False\ndef test_e(f): pass\n"
RAY_AND_JAVA = "@pytest.mark.java\n@pytest.mark.ray\ndef test_g(): pass\n"


@pytest.mark.parametrize(
    ("source", "options", "last_line", "exit_code"),
    [
        (PASSING, (), "1 passed, 0 failed", 0),
        (PASSING + FAILING, (), "1 passed, 1 failed", 1),
        (PASSING + SKIPPED, (), "1 passed, 1 failed", 1),
        (PASSING + SKIPPED, ("--without", "java"), "1 passed, 0 failed", 0),
        (EXPECTED_FAILURE, (), "0 passed, 1 failed", 1),
        (BROKEN_TEARDOWN, (), "0 passed, 1 failed", 1),
        ("import no_such_module\n", (), "0 passed, 2 failed", 2),  # and no unit test ran
        (PASSING + RAY_AND_JAVA, ("--without", "ray"), "1 passed, 0 failed", 0),
    ],
)
def test_last_line_and_exit_code(
    pytester: pytest.Pytester,
    source: str,
    options: tuple[str, ...],
    last_line: str,
    exit_code: int,
) -> None:
    result = run(pytester, source, *options)
    assert result.outlines[-1] == last_line
    assert result.ret == exit_code


def test_an_expected_kind_of_which_nothing_ran_fails_the_complete_run(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, "@pytest.mark.java\ndef test_c(): pass\n")
    result.stdout.fnmatch_lines(["not accepted: unit: nothing ran (--without unit allows it)"])
    assert result.ret == 1


def test_a_part_of_the_tests_need_not_hold_every_kind(pytester: pytest.Pytester) -> None:
    result = run(pytester, "@pytest.mark.java\ndef test_c(): pass\n", "-k", "test_c")
    assert (result.ret, result.outlines[-1]) == (0, "1 passed, 0 failed")


def test_a_session_cut_short_is_no_success(pytester: pytest.Pytester) -> None:
    stopping = "def test_z():\n pytest.exit('enough', returncode=2)\n"
    result = run(pytester, PASSING + stopping)
    assert (result.ret, result.outlines[-1]) == (2, "1 passed, 1 failed")


def test_the_table_names_what_ran_and_what_was_left_out(pytester: pytest.Pytester) -> None:
    result = run(pytester, PASSING + RAY_AND_JAVA, "--without", "ray")
    result.stdout.re_match_lines([r"kind +ran +failed +skipped +seconds", r"unit +1 +0 +0 +0\.\d"])
    result.stdout.re_match_lines([r"ray +- +- +- +left out"])


def test_a_test_belongs_to_the_most_demanding_of_its_kinds(pytester: pytest.Pytester) -> None:
    result = run(pytester, PASSING + RAY_AND_JAVA)
    result.stdout.re_match_lines([r"java +1 +0 +0"])


def test_kinds_that_have_to_be_first_are(pytester: pytest.Pytester) -> None:
    marks = "@pytest.mark.spark\n"
    source = f"def test_a(): pass\n{marks}def test_b(): pass\ndef test_c(): pass\n"
    source += f"@pytest.mark.java\n{marks}def test_d(): pass\n"
    ran = run(pytester, source, "-v").stdout
    names = ("b", "d", "a", "c")
    ran.fnmatch_lines([f"*test_{name} PASSED*" for name in names])


def test_free_modules_run_behind_all_others_the_most_demanding_first(
    pytester: pytest.Pytester,
) -> None:
    for name, kind in (("b", "golden"), ("c", "process"), ("d", "etcd")):
        marked = f"import pytest\n@pytest.mark.{kind}\ndef test_{name}(): pass\n"
        pytester.makepyfile(**{f"test_{kind}": marked})
    share = ("--share", "1", str(pytester.path / "tallies.json"))
    ran = run(pytester, PASSING, "-v", *share).stdout
    ran.fnmatch_lines([f"*test_{name} PASSED*" for name in "dcba"])


def test_long_tests_run_only_when_asked(pytester: pytest.Pytester) -> None:
    source = PASSING + "@pytest.mark.long\ndef test_h(): pass\n"
    assert run(pytester, source).outlines[-1] == "1 passed, 0 failed"
    assert run(pytester, source, "--long").outlines[-1] == "2 passed, 0 failed"


def test_tests_that_draw_their_examples_are_marked_so(pytester: pytest.Pytester) -> None:
    source = PASSING + "def test_i(): pass\ntest_i.is_hypothesis_test = True\n"
    assert run(pytester, source, "-m", "drawn").outlines[-1] == "1 passed, 0 failed"


def test_of_some_parameters_a_part_runs_each_day(pytester: pytest.Pytester) -> None:
    source = "from tests.kinds import some_daily\n" + PASSING
    source += "@pytest.mark.parametrize(('a', 'b'), some_daily(2, [(1, 2), (3, 4), (5, 6)]))\n"
    source += "def test_k(a, b): assert a + 1 == b\n"
    assert run(pytester, source).outlines[-1] == "3 passed, 0 failed"
    assert run(pytester, source, "--long").outlines[-1] == "4 passed, 0 failed"


TWO_CLUSTERS = """@pytest.mark.daily({0!r})
@pytest.mark.parametrize("cluster", ["real", "notifications"])
@pytest.mark.parametrize("n", range(3))
def test_j(cluster, n): pass
"""


@pytest.mark.parametrize(
    ("where", "runs"),
    [
        ("real", ["real-0", "real-1", "real-2"]),
        ("in turn", ["real-0", "real-2", "notifications-1"]),
    ],
)
def test_a_test_runs_at_one_cluster_a_day(
    pytester: pytest.Pytester, where: str, runs: list[str]
) -> None:
    source = PASSING + TWO_CLUSTERS.format(where)
    said = run(pytester, source, "-v").outlines
    passed = [line for line in said if "test_j[" in line and "PASSED" in line]
    ids = {line.partition("[")[2].partition("]")[0] for line in passed}
    assert {"-".join(reversed(each.split("-"))) for each in ids} == set(runs)


def test_what_a_test_said_is_below_the_table(pytester: pytest.Pytester) -> None:
    speaking = "def test_s(record_property):\n record_property('said', '97 of 100')\n"
    result = run(pytester, speaking)
    result.stdout.fnmatch_lines(["unit *", "97 of 100", "1 passed, 0 failed"])
    assert result.outlines.count("97 of 100") == 1


def test_what_failed_is_named_below_the_table(pytester: pytest.Pytester) -> None:
    result = run(pytester, PASSING + FAILING + BROKEN_TEARDOWN)
    result.stdout.re_match_lines(
        ["unit .*", r"failed: \S+::test_b", r"failed: \S+::test_e", "1 passed, 2 failed"]
    )


REAPING = """@pytest.mark.kill
def test_r():
    import os
    os.waitid(os.P_ALL, 0, os.WEXITED)
"""


def run_split(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    without: Sequence[str] | None = None,
) -> pytest.RunResult:
    """Run pytest with further processes, which find the plug-in by the tree's conftest."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    pytester.makeini("[pytest]\ntestpaths = .")
    pytester.makeconftest("pytest_plugins = ['tests.kinds']")
    pytester.makepyfile(test_it=f"import pytest\n{source}")
    options = ("--account", "--split", "-p", "no:cacheprovider")
    return pytester.runpytest_subprocess(*options, *(_WITHOUT if without is None else without))


_WITHOUT = [
    f"--without={name}" for name, kind in kinds.KINDS.items() if kind.expected and name != "unit"
]
_WITHOUT_ALL_BUT_JAVA = [option for option in _WITHOUT if option != "--without=java"]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "code", "last_line"),
    [(PASSING, 0, "2 passed, 0 failed"), (PASSING + FAILING, 1, "2 passed, 1 failed")],
)
def test_a_split_run_counts_all_processes_and_shows_what_failed(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    code: int,
    last_line: str,
) -> None:
    source += "@pytest.mark.kill\ndef test_k(): pass\n"
    result = run_split(pytester, monkeypatch, source)
    assert (result.ret, result.outlines[-1]) == (code, last_line)
    if code:
        result.stdout.fnmatch_lines(["*def test_b(): assert False*", "failed: *.py::test_b"])


def test_a_process_collects_all_tests_of_its_kinds() -> None:
    folder = Path(kinds.__file__).parent
    for process, names in kinds.LEFT_TO_OTHERS.items():
        marks = [f"mark.{name}" for name, kind in kinds.KINDS.items() if kind.process == process]
        for name in names:
            assert kinds.is_left_to_others(process, folder / name)
            assert not kinds.is_left_to_others(1, folder / name)
            sources = list((folder / name).rglob("*.py"))
            own = [x.name for x in sources if any(mark in x.read_text() for mark in marks)]
            assert sources and own == [], name
    assert not kinds.is_left_to_others(2, folder / "spark")
    assert not kinds.is_left_to_others(2, folder / "spark" / "client")


SHARED_BY_SOME = """
log = []
@pytest.fixture(scope="session")
def base():
    yield log.append("base")
    log.append("base ends")
@pytest.fixture(scope="session", params=[1, 2])
def above(request, base):
    yield log.append(request.param)
    log.append(f"{request.param} ends")
def test_a(base, above): pass
def test_b(above): pass
def test_c(): assert log == ["base", 1, "1 ends", 2, "2 ends", "base ends"]
"""


def test_what_a_session_shares_ends_with_the_last_test_that_uses_it(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, SHARED_BY_SOME)
    assert (result.ret, result.outlines[-1]) == (0, "5 passed, 0 failed")


def test_an_early_end_that_fails_fails_the_last_test(pytester: pytest.Pytester) -> None:
    source = SHARED_BY_SOME.partition("def test_c")[0].replace('log.append("base ends")', "1 / 0")
    result = run(pytester, source)
    assert result.outlines[-2:] == [
        "failed: test_an_early_end_that_fails_fails_the_last_test.py::test_b[2]",
        "3 passed, 1 failed",
    ]


FREE_AND_SHARED = """
import os, pathlib, time
@pytest.fixture(scope="session")
def shared():
    yield 1
    note("ended")
def ran():
    file = pathlib.Path("ran")
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []
def waits(true):
    limit = time.monotonic() + 20
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.01)
def note(word):
    with open("ran", "a") as file: file.write(f"{word} {os.getpid()}\\n")
@pytest.mark.java
def test_first(shared):
    note("first")  # both other processes are busy, and so the third module comes here
    waits(lambda: len({number for word, number in ran() if word == "free"}) == 2)
@pytest.mark.java
def test_after(shared): note("after")
"""
FREE = """
import pytest
from test_it import note, ran, waits
@pytest.mark.java
@pytest.mark.parametrize("number", range(2))
def test_free(number):
    note("free")
    waits(lambda: "ended" in dict(ran()))  # what is shared, with the last who shares it
"""


@pytest.mark.process
@pytest.mark.slow
def test_what_shares_nothing_runs_once_and_in_the_process_that_has_time(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_x_free=FREE, test_y_free=FREE, test_z_free=FREE)
    result = run_split(
        pytester, monkeypatch, PASSING + FREE_AND_SHARED, without=_WITHOUT_ALL_BUT_JAVA
    )
    assert (result.ret, result.outlines[-1]) == (0, "9 passed, 0 failed")
    ran = [line.split() for line in (pytester.path / "ran").read_text().splitlines()]
    assert sorted(word for word, _ in ran) == ["after", "ended", "first", *["free"] * 6]
    by_word = {word: {number for name, number in ran if name == word} for word, _ in ran}
    assert by_word["first"] == by_word["after"] == by_word["ended"]
    assert len(by_word["free"] - by_word["first"]) == 2


@pytest.mark.process
@pytest.mark.slow
def test_what_failed_counts_also_if_a_test_reaped_another_process(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its exit code is lost then, and reads as 0."""
    result = run_split(pytester, monkeypatch, PASSING + FAILING + REAPING)
    assert (result.ret, result.outlines[-1]) == (1, "2 passed, 1 failed")
    result.stdout.fnmatch_lines(["*def test_b(): assert False*", "failed: *.py::test_b"])
