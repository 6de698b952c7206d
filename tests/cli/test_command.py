"""Commands are declared in one place each, and read in one way."""

import re
from collections.abc import Iterator
from typing import Literal

import pytest

from tests.cli.fakes import FakeDeployment
from wakelog.actors.errors import NotPossible
from wakelog.cli import app
from wakelog.cli.command import Call, Command, Group, read
from wakelog.cli.options import Pair, argument, option, pairs, switch
from wakelog.cli.root import program
from wakelog.cli.stop_signals import StopSignals


@pytest.fixture
def toy() -> Iterator[list[object]]:
    """Add a command as every other one is added, and yield what it gets."""
    got: list[object] = []

    @program.command()
    def juggle(
        what: str = argument("WHAT", "What is thrown."),
        balls: int = option("N", "How many.", minimum=1, default=3),
        high: bool = switch("Higher than the hands."),
    ) -> int:
        """Throw things, and catch them.

        Nothing falls.
        """
        got.append((what, balls, high))
        return 4

    yield got
    del program._members["juggle"]


def run(*words: str) -> int:
    return app.run(words, StopSignals())


def test_a_command_needs_no_second_place(
    toy: list[object], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run("juggle", "knives", "--balls", "5", "--high") == 4
    assert toy == [("knives", 5, True)]
    assert run("juggle", "knives", "--balls", "0") == 2
    said = capsys.readouterr().err
    assert said == "wakelog: --balls needs a number of 1 or more. See wakelog juggle --help.\n"
    assert run("--help") == 0
    assert re.search(r"^  juggle +Throw things, and catch them.$", capsys.readouterr().out, re.M)
    monkeypatch.setenv("_WAKELOG_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "wakelog juggle --b")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert run() == 0
    assert capsys.readouterr().out == "--balls\n"


def test_a_name_is_declared_once(toy: list[object]) -> None:
    def again() -> None:
        """Throw."""

    with pytest.raises(AssertionError, match="wakelog juggle is declared twice"):
        program.command("juggle")(again)


def some(
    first: str = argument("FIRST"),
    second: str | None = argument("SECOND"),
    name: str = option("NAME", "A name.", "--name", "-n", default=""),
    number: int | None = option("N", "A number.", "-i", "--number"),
    share: float = option("X", "A share.", minimum=0.5, maximum=2, default=1.0),
    form: Literal["wide", "long"] = option("", "A form.", default="wide"),
    truth: bool = option("", "true or not."),
    follow: bool = switch("Follow.", "--follow", "-f"),
    ids: list[str] | None = option("ID", "Ids.", "--id"),
    properties: list[Pair] | None = pairs("property", "Properties."),
) -> dict[str, object]:
    """Return what is given."""
    return {name: value for name, value in locals().items() if value != DEFAULTS[name]}


DEFAULTS = {
    "first": None,
    "second": None,
    "name": "",
    "number": None,
    "share": 1.0,
    "form": "wide",
    "truth": False,
    "follow": False,
    "ids": None,
    "properties": None,
}
GROUP = Group("toy", "Toys.")
GROUP.command()(some)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("a", {"first": "a"}),
        ("a b -n x", {"first": "a", "second": "b", "name": "x"}),
        ("--name=x=y a", {"first": "a", "name": "x=y"}),
        ("-nx a", {"first": "a", "name": "x"}),
        ("-fn=x a", {"first": "a", "name": "x", "follow": True}),
        ("-i -1 a", {"first": "a", "number": -1}),
        ("-n --id a", {"first": "a", "name": "--id"}),
        ("-n x -n y a", {"first": "a", "name": "y"}),
        ("--id x --id y a", {"first": "a", "ids": ["x", "y"]}),
        ("--property k=v=w a", {"first": "a", "properties": [("k", "v=w")]}),
        ("--share 2 --form long a", {"first": "a", "share": 2, "form": "long"}),
        ("--truth True a", {"first": "a", "truth": True}),
        ("--truth yes a", {"first": "a"}),
        ("- -- --name", {"first": "-", "second": "--name"}),
    ],
)  # fmt: skip
def test_words_become_values(line: str, values: dict[str, object]) -> None:
    call = read(GROUP, ["some", *line.split()])
    assert isinstance(call, Call)
    assert call() == values


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("", "missing argument 'FIRST'"),
        ("a b c d", "got unexpected extra argument(s) (c d)"),
        ("a --nam x", "there is no option --nam. Did you mean --name?"),
        ("a -x", "there is no option -x. See toy some --help."),
        ("a -fx", "there is no option -x."),
        ("a --number", "option '--number' requires an argument"),
        ("a --follow=yes", "option '--follow' does not take a value"),
        ("a -i one", "--number needs a whole number"),
        ("a -i 1_0", "--number needs a whole number"),
        ("a -i 1.5", "--number needs a whole number"),
        (f"a -i {1 << 63}", "--number needs a number of 9223372036854775807 or less"),
        (f"a -i {'9' * 5_000}", "--number needs a number of fewer digits"),
        ("a --share x", "--share needs a number."),
        ("a --share nan", "--share needs a number of 2 or less"),
        ("a --share 0.1", "--share needs a number of 0.5 or more"),
        ("a --form tall", "--form: 'tall' is not one of 'wide', 'long'."),
        ("a --property =v", "--property '=v' is no KEY=VALUE"),
    ],
)
def test_a_mistake_names_cause_and_remedy(line: str, cause: str) -> None:
    with pytest.raises(NotPossible) as refused:
        read(GROUP, ["some", *line.split()])
    assert str(refused.value).startswith(cause)


@pytest.mark.parametrize(
    "line", ["some --help", "some -h", "some a b c --name x -fh", "help some", "SOME --help"]
)
def test_help_is_of_the_command(line: str) -> None:
    found = read(GROUP, line.split())
    assert isinstance(found, Command)
    assert found.path == "toy some"


def test_help_is_of_the_group_without_a_command() -> None:
    for words in ([], ["--help"], ["-h"], ["help"]):
        assert read(GROUP, words) is GROUP
    assert read(program, ["help", "dlq", "show"]) is program.find("dlq").find("show")  # type: ignore[union-attr]


def test_an_unknown_command_is_refused() -> None:
    with pytest.raises(NotPossible, match=r"no command somme\. Did you mean some\? See toy --help"):
        read(GROUP, ["somme"])
    with pytest.raises(NotPossible, match=r"no command x\. See toy --help"):
        read(GROUP, ["x"])
    with pytest.raises(NotPossible, match=r"there is no option --x\. See toy --help"):
        read(GROUP, ["--x"])


def test_commands_stand_in_the_order_of_their_modules() -> None:
    group = Group("program", "", load=("csv", "json"))

    def second() -> int:
        return 0

    def first() -> int:
        return 0

    second.__module__, first.__module__ = "json", "csv"
    group.command()(second)  # its module was imported before by another one
    group.command()(first)
    assert list(group.members) == ["first", "second"]


@pytest.mark.parametrize("pair", ["fast", "=fast"])
@pytest.mark.parametrize("option", ["--conf", "--option"])
def test_a_pair_has_a_key_and_a_value(
    option: str, pair: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["spark", "hotkeys", "--store", "/s", option, "a=b=c", option, pair]
    assert app.run(words, StopSignals(), lambda plan: FakeDeployment()) == 2
    assert f"{option} {pair!r} is no KEY=VALUE" in capsys.readouterr().err
