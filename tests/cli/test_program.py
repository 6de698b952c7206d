"""The name of the program."""

import sys

import pytest

from wakelog.cli.program import command_line


@pytest.mark.parametrize(
    ("called", "found", "expected"),
    [
        ("/venv/bin/wakelog", "/venv/bin/wakelog", "wakelog"),
        ("/venv/bin/wakelog", None, f"{sys.executable} -m wakelog"),
        ("/src/wakelog/__main__.py", "/venv/bin/wakelog", f"{sys.executable} -m wakelog"),
    ],
)
def test_the_command_line_names_the_program_as_it_was_called(
    called: str, found: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setattr("shutil.which", lambda name: found)
    assert command_line() == expected
