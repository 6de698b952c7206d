"""The process of a console: what it says when it ends, and that it outlives no parent."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from wakelog.cli import console_process
from wakelog.cli.console_beside import SAID_BYTES_MAX
from wakelog.cli.console_process import run_words

SECONDS_MAX = 30


def test_a_command_line_that_fails_returns_what_it_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_words(["consle"]).startswith("there is no command consle")
    assert run_words(["--version"]) == ""
    assert capsys.readouterr() == ("", "")


def test_what_up_asks_for_is_served_and_its_failure_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = ["console", "--name-server", "127.0.0.1:1", "--port", port, "--tls-insecure"]
        assert run_words(words).startswith(f"cannot listen on 127.0.0.1:{port}")
    words += ["--account", "/nowhere/account.yml"]
    assert "/nowhere/account.yml cannot be read" in run_words(words)


def test_little_is_kept_of_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []

    def talk(*_: object) -> int:
        for stream in (sys.stdout, sys.stderr):
            for number in range(10_000):
                print(f"line {number}", file=stream)
            assert isinstance(stream, console_process._End)
            kept.append(len(stream.text))
        return 1

    monkeypatch.setattr(console_process, "run", talk)
    assert run_words(["console"]) == "line 9999"
    assert max(kept) <= SAID_BYTES_MAX


@pytest.mark.parametrize(
    "words", [["--port", "x"], ["--unknown", "1"], ["--bind", "here", "--port", "0"]]
)
def test_other_words_are_read_by_the_command_line(words: list[str]) -> None:
    said = run_words(["console", "--name-server", "127.0.0.1:1", *words])
    assert words[0] in said or words[1] in said


@pytest.mark.process
@pytest.mark.slow
def test_it_ends_when_its_input_does() -> None:
    words = ["-m", "wakelog.cli.console_process", "console", "-n", "127.0.0.1:1", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline().startswith("console  http://127.0.0.1:")
        mapped = Path(f"/proc/{process.pid}/maps").read_text()
        assert (
            "ssl" in mapped and "pydantic" not in mapped
        )  # 8 MB of a console that changes nothing
        process.stdin.close()
        assert process.wait(SECONDS_MAX) == 0
