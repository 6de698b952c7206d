"""The process of a console: what it says when it ends, and that it outlives no parent."""

import subprocess
import sys

import pytest

from wakelog.cli.console_process import run_words

SECONDS_MAX = 30


def test_a_command_line_that_fails_returns_what_it_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_words(["consle"]).startswith("no such command 'consle'")
    assert run_words(["--version"]) == ""
    assert capsys.readouterr() == ("", "")


@pytest.mark.process
@pytest.mark.slow
def test_it_ends_when_its_input_does() -> None:
    words = ["-m", "wakelog.cli.console_process", "console", "-n", "127.0.0.1:1", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline().startswith("console  http://127.0.0.1:")
        process.stdin.close()
        assert process.wait(SECONDS_MAX) == 0
