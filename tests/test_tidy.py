"""The tree keeps the house rules of `tidy.py`, and each rule catches what it is there for."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest

from tests import prose, tidy
from tests.tidy import CHECKS, Check, Source

SOURCES = tidy.sources()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.complain.__name__)
def test_the_tree_keeps_the_rule(check: Check) -> None:
    complaints = [
        complaint
        for source in SOURCES
        if source.path.endswith(check.suffixes)
        for complaint in check.complain(source)
    ]
    assert not complaints, "\n" + "\n".join(complaints)


def test_a_folder_says_its_idea() -> None:
    modules = {source.path for source in SOURCES if source.path.endswith(".py")}
    folders = {str(PurePosixPath(path).parent) for path in modules if path.startswith("wakelog/")}
    assert {f"{folder}/__init__.py" for folder in folders} <= modules


def test_sentences_are_short_on_the_average() -> None:
    counts: dict[str, list[int]] = {}
    for source in SOURCES:
        if source.path.endswith((".py", ".md")):
            folder = "/".join(source.path.split("/")[:2])
            counts.setdefault(folder, []).extend(x.word_count for x in tidy.sentences_of(source))
    averages = {folder: sum(found) / len(found) for folder, found in counts.items() if found}
    assert {x: n for x, n in averages.items() if n >= prose.AVERAGE_WORDS_MAX} == {}


def test_no_modules_import_each_other() -> None:
    assert tidy.import_cycle(SOURCES) == []


def test_a_circle_of_imports_is_caught_wherever_an_import_stands() -> None:
    late = "if TYPE_CHECKING:\n    from wakelog.a.two import X\n"
    there = Source("wakelog/a/one.py", late)
    back = Source("wakelog/a/two.py", "def f():\n    import wakelog.a.one\n")
    assert set(tidy.import_cycle([there, back])) == {"wakelog.a.one", "wakelog.a.two"}
    assert tidy.import_cycle([there, Source("wakelog/a/two.py", "from wakelog.a import z")]) == []


def test_every_reason_is_still_needed() -> None:
    known = {source.path for source in SOURCES}
    assert set(tidy.UNTESTED) <= known
    assert {path.partition(":")[0] for path in tidy.EXCEEDING} <= known


# For each rule a text that breaks it once, and one that keeps it.
Rule = Callable[[Source], Iterator[str]]
EXAMPLES: dict[Rule, tuple[str, str]] = {
    tidy.long_modules: ("x = 1\n" * 601, "x = 1\n" * 600),
    tidy.long_functions: ("def f():\n" + "    pass\n" * 70, "def f():\n" + "    pass\n" * 69),
    tidy.missing_docstrings: ("x = 1\n", '"""What lives here."""\n'),
    tidy.absent_modules: ('"""See `none.py`."""\n', '"""See `actors/name_server.py`."""\n'),
    tidy.late_attributes: (
        "class A(Timer):\n    def begin(self):\n        self.store = 1",
        "class A(B):\n    def begin(self):\n        self.store = self.own = 1\n"
        "    def __init__(self):\n        self.own = 0\nclass B:\n    store: int\n",
    ),
    tidy.unstarted_attributes: (
        "class A:\n    def __init__(self):\n        self.part: B | None = None\n"
        "    async def start(self):\n        self.part = B()\n",
        "class A:\n    def __init__(self):\n        self.part = None\n"
        "    def start(self):\n        self.part = B()\n"
        "    def stop(self):\n        self.part = None\n",
    ),
    tidy.prints: ("print(1)\n", "log(1)\n"),
    tidy.bare_excepts: (
        "try:\n    f()\nexcept:\n    g()",
        "try:\n    f()\nexcept OSError:\n    g()",
    ),
    tidy.mistaken_repeats: (
        'import re\nre.compile(rf"(?:{x}-y)*+")\n',
        'import re\nre.compile(r"a*+(?:-y*+[0-9]?+)*+(?:ab)*")\n',
    ),
    tidy.types_read_elsewhere: (
        "found = msgspec.json.decode(data, type=Plan)\n",
        "found = decode_json(data, Plan), msgspec.json.decode(data), Decoder(), a.decode()\n",
    ),
    tidy.shared_randomness: (
        "import random\nport = random.choice(range(9))\n",
        "import random\nport = random.SystemRandom().choice(range(9))\n",
    ),
    tidy.reminders: ("# TO" + "DO: later\n", "# to do: later\n"),
    tidy.foreign_words: ("see https" + "://index.example/x", "see http://localhost:9876/x"),
    tidy.broken_links: ("[a](none.md)", "[a](../../LICENSE#there) [b](#here)"),
    tidy.long_sentences: (f'"""A{" word" * 30}."""\n', f'"""A{" word" * 29}. One more."""\n'),
    tidy.replaced_names: ("def take_in(): pass\n", "def consume(sent_by: int): pass\n"),
}


def test_subjects_of_commits_are_short() -> None:
    found = tidy.subjects()
    if found is None:
        pytest.skip("there is no git, or no repository here")
    assert [one for one in found if len(one) >= tidy.SUBJECT_CHARACTERS_MAX] == []


def test_subjects_are_those_after_the_rule_was_made(tmp_path: Path) -> None:
    """A clone without the commit of the rule has those that were committed later."""
    assert tidy.subjects(tmp_path) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for subject, day in (("before", "2026-11-28"), ("after", "2026-11-30")):
        dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"{day}T00:00:00+00:00")
        commit = [*git, "commit", "--quiet", "--allow-empty", "--no-gpg-sign", "-m", subject]
        subprocess.run(commit, check=True, env={**os.environ, **dates})
    assert tidy.subjects(tmp_path) == ["after"]


def test_no_further_name_has_two_classes() -> None:
    shared = tidy.shared_class_names(SOURCES)
    assert len(shared) <= tidy.SHARED_CLASS_NAMES_MAX, sorted(shared)
    assert "Lane" not in shared


@pytest.mark.parametrize("rule", EXAMPLES, ids=lambda rule: rule.__name__)
def test_a_rule_catches_its_breach_only(rule: Rule) -> None:
    breach, sound = EXAMPLES[rule]
    assert len(list(rule(Source("wakelog/actors/example.py", breach)))) == 1
    assert list(rule(Source("wakelog/actors/example.py", sound))) == []


def test_a_module_without_tests_is_caught() -> None:
    [complaint] = tidy.untested_modules(Source("wakelog/storage/example.py", ""))
    assert "no tests/storage/test_example.py" in complaint
    assert list(tidy.untested_modules(Source("wakelog/storage/__init__.py", ""))) == []


def test_a_module_that_its_package_does_not_name_is_caught() -> None:
    [complaint] = tidy.unnamed_modules(Source("wakelog/tasks/__init__.py", '"""names, reader"""'))
    assert "reader" not in complaint and "sender" in complaint
    named = " ".join(path.stem for path in (tidy.ROOT / "wakelog/tasks").glob("*.py"))
    assert list(tidy.unnamed_modules(Source("wakelog/tasks/__init__.py", f'"""{named}"""'))) == []


@pytest.mark.parametrize(
    "order", ["`reader`, `none`.", "\n\n    reader    pulls\n    none      is not there\n"]
)
def test_a_module_that_is_read_and_absent_is_caught(order: str) -> None:
    text = f'"""Read in this order: {order}"""' if "`" in order else f'"""In this order:{order}"""'
    [complaint] = tidy.absent_modules(Source("wakelog/tasks/__init__.py", text.lower()))
    assert complaint.endswith("there is no none to read")


def test_every_rule_is_run_and_has_an_example() -> None:
    tested = {*EXAMPLES, tidy.untested_modules, tidy.unnamed_modules}
    assert {check.complain for check in CHECKS} == tested
