"""A process of ours imports less; what it hides is there again afterwards."""

import colorsys
import importlib
import subprocess
import sys

import pytest

from wakelog.telemetry.lean_import import hidden


def test_only_what_is_not_imported_yet_is_hidden_and_only_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with hidden("colorsys"):
        assert sys.modules["colorsys"] is colorsys
    monkeypatch.delitem(sys.modules, "colorsys")
    with hidden("colorsys"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("colorsys")
    assert importlib.import_module("colorsys") is not colorsys


_PROGRAM = """
import sys
from wakelog.telemetry.lean_import import import_structlog
import_structlog()
import wakelog.telemetry.logs
print("rich" in sys.modules)
import rich.console
"""


@pytest.mark.process
def test_no_log_needs_rich() -> None:
    command = [sys.executable, "-c", _PROGRAM]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "False\n"
