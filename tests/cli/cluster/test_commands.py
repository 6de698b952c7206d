"""Command lines: mistakes, and what the shell gets for completion."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.cluster.conftest import CommandLine
from wakelog.actors.errors import NotPossible
from wakelog.cli.cluster.codes import MEANINGS, explain_code
from wakelog.cli.cluster.times import read_moment_ms, read_span_ms
from wakelog.protocol.codes import RequestCode, ResponseCode


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("tail", "absent"), 1, "no name server knows topic absent"),
        (("tail", "absent", "--sql", "a >"), 2, "is no expression: Encountered "),
        (("tail", "absent", "--filter", "||"), 2, "has no tag"),
        (("tail", "absent", "--since", "noon"), 2, "'noon' is no time"),
        (("send", "t", "b", "--delay", "soon"), 2, "'soon' is no length of time"),
        (("send", "t", ""), 2, "its body is null or empty"),
        (("topics", "--output", "xml"), 2, "'xml' is not one of"),
        (("topics", "-n", "here"), 2, "here is no HOST:PORT"),
        (("topics", "-n", ""), 2, "no name server is given"),
        (("hello", ""), 2, "no name server is given"),
        (("admin", "topicList", "-n", " "), 2, "no name server is given"),
        (("tail", "t", "--access-key", "k"), 2, "there is no secret key for k"),
        (("tail", "t", "--tls-config", "/none"), 2, "Name a readable file with --tls-config."),
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


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("wakelog dlq re", ["resend"]),
        ("wakelog topics --out", ["--output"]),
        ("wakelog topics --output js", ["json"]),
    ],
)
def test_the_shell_completes_what_belongs_to_a_command(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, words: str, found: list[str]
) -> None:
    monkeypatch.setenv("_WAKELOG_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert cli() == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("wakelog admin updateT", {"updateTopic", "updateTopicPerm"}),
        ("wakelog admin updateTopic --top", {"--topic"}),
        ("wakelog admin updateTopic -t orders --order", {"--order"}),
        ("wakelog admin topicList -n 127.0.0.1:9876 --output j", {"json"}),
        ("wakelog tail --foll", {"--follow"}),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_completes_the_commands_of_mqadmin_too(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, shell: str, line: str, found: set[str]
) -> None:
    monkeypatch.setenv("_WAKELOG_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    offered = cli()
    if shell == "zsh":  # "word":"meaning" of each, as an argument of _arguments
        offered = re.findall(r'^(?:.*\(\()?"([^"]+)"', "\n".join(offered), re.MULTILINE)
    assert {each.partition("\t")[0] for each in offered} == found


@pytest.mark.process
def test_completion_is_installed_for_a_shell_that_then_completes(tmp_path: Path) -> None:
    """By bash itself, which loads what was installed and asks it for the rest of a word."""
    programs = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    # For the shell that it is called from; after this command bash goes on.
    install = ["bash", "-c", "wakelog --install-completion && true"]
    subprocess.run(install, env=environment, check=True, capture_output=True)
    [installed] = tmp_path.glob(".bash_completions/*.sh")
    assert str(installed) in (tmp_path / ".bashrc").read_text()
    asks = f"""
source {installed}
complete_it=$(complete -p wakelog | sed 's/.* -F //; s/ .*//')
COMP_WORDS=(wakelog expl) COMP_CWORD=1
$complete_it wakelog
echo "${{COMPREPLY[@]}}"
COMP_WORDS=(wakelog admin deleteT) COMP_CWORD=2
$complete_it wakelog
echo "${{COMPREPLY[@]}}"
"""
    outcome = subprocess.run(
        ["bash", "-c", asks], env=environment, check=True, capture_output=True, text=True
    )
    assert outcome.stdout.split() == ["explain", "deleteTopic"]


def test_every_code_is_explained_by_number_and_name() -> None:
    for code in (*ResponseCode, *RequestCode):
        by_number = explain_code(str(code.value))
        [by_name] = [x for x in explain_code(code.name) if x.code == code.value]
        assert by_name in by_number
        assert by_name.when.endswith(".")


def test_a_number_may_be_two_codes(cli: CommandLine) -> None:
    assert [(x["kind"], x["name"]) for x in cli.json("explain", "17")] == [
        ("response", "TOPIC_NOT_EXIST"), ("request", "UPDATE_AND_CREATE_TOPIC")
    ]  # fmt: skip
    assert cli("explain", "send_message")[1].strip() == (
        "Store one message or a batch. Answered by a broker, in lane send."
    )
    cli("explain", "999", code=2)
    assert "4.9.3 has no code '999'" in cli.err


def test_what_is_stored_all_the_same_says_so() -> None:
    for code in (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE):
        assert "is stored" in MEANINGS[code].when


NOW_MS = 1_795_500_000_000


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("beginning", 0),
        ("now", -1),
        ("10m", NOW_MS - 600_000),
        ("1d", NOW_MS - 86_400_000),
        ("1795500000000", NOW_MS),
        ("2026-11-24T06:00:00+00:00", 1_795_500_000_000),
    ],
)
def test_a_time_is_read(text: str, moment_ms: int) -> None:
    assert read_moment_ms(text, NOW_MS) == moment_ms


@pytest.mark.parametrize("text", ["", "5", "m", "1w", "-5m", "٣m"])
def test_a_length_of_time_needs_number_and_unit(text: str) -> None:
    with pytest.raises(NotPossible, match="no length of time"):
        read_span_ms(text)
