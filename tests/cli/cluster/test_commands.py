"""Command lines: mistakes, and what the shell gets for completion."""

import pytest

from tests.cli.cluster.conftest import CommandLine


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("tail", "absent"), 1, "no name server knows topic absent"),
        (("tail", "absent", "--sql", "a >"), 2, "is no expression: Encountered "),
        (("tail", "absent", "--filter", "||"), 2, "has no tag"),
        (("tail", "absent", "--since", "noon"), 2, "'noon' is no time"),
        (("send", "t", "b", "--delay", "soon"), 2, "'soon' is no length of time"),
        (("send", "t", ""), 1, "its body is null or empty"),
        (("topics", "--output", "xml"), 2, "'xml' is not one of"),
        (("topics", "-n", "here"), 2, "here is no HOST:PORT"),
        (("topics", "-n", "127.0.0.1:1"), 1, "Connection refused"),
    ],
)
def test_a_mistake_is_one_line(
    cli: CommandLine, words: tuple[str, ...], code: int, part: str
) -> None:
    assert cli(*words, code=code) == []
    [line] = cli.err.splitlines()
    assert part in line


def test_the_shell_gets_completions(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_WAKELOG_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "wakelog topi")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert cli() == ["topics"]
