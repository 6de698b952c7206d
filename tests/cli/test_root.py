"""All commands together, and what a command line asks a cluster."""

import inspect
from pathlib import Path

import pytest

import wakelog.cli
from wakelog.actors.errors import NotPossible
from wakelog.cli.root import ask_of, program


def test_every_module_with_commands_is_loaded() -> None:
    [folder] = wakelog.cli.__path__
    declaring = {
        path.relative_to(folder).with_suffix("").as_posix().replace("/", ".")
        for path in Path(folder).rglob("*.py")
        if ".command(" in path.read_text() and path.name != "command.py"
    }
    assert declaring == {
        x.function.__module__.removeprefix("wakelog.cli.") for x in program.commands()
    }


def test_names_of_options_are_unique_in_a_command_and_help_is_theirs() -> None:
    for command in program.commands():
        every = [*command.own, *command.common]
        names = [name for x in every for name in x.names]
        assert len(set(names)) == len(names) and not {"-h", "--help"} & set(names), command.path
        assert len({x.name for x in every}) == len(every), command.path
        assert set(command.one_of) <= {x.name for x in command.own}, command.path
        assert command.summary, command.path
        count = len(inspect.signature(command.function).parameters)
        made = {command.first, command._shared_name} - {""}  # the rest is handed over
        assert len(command.own) + len(made) == count, command.path


@pytest.mark.parametrize(
    "words", [["log", "dump"], ["explain", "17"], ["topics", "--help"], ["topics", "-h"], ["dlq"]]
)
def test_what_asks_no_cluster_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotPossible, match=f"wakelog {words[0]} asks no cluster"):
        ask_of(words)
    assert capsys.readouterr() == ("", "")
