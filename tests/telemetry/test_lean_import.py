"""A process of ours imports less; what it hides is there again afterwards."""

import colorsys
import gc
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from wakelog.telemetry.lean_import import hidden, put_off, uncollected


def test_only_what_is_not_imported_yet_is_hidden_and_only_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with hidden("colorsys"):
        assert sys.modules["colorsys"] is colorsys
    monkeypatch.delitem(sys.modules, "colorsys")
    with hidden("colorsys"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("colorsys")
    assert importlib.import_module("colorsys") is not colorsys


def test_a_package_that_is_put_off_is_imported_when_it_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "__init__.py").write_text("value = [1]")
    (tmp_path / "later" / "part.py").write_text("from later import value")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("later", "later.part"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with put_off("later", "colorsys"):
        assert sys.modules["colorsys"] is colorsys
        given = importlib.import_module("later")
    assert "later" not in sys.modules
    assert given.value == [1] and given.value is sys.modules["later"].value
    with pytest.raises(AttributeError, match="later"):
        print(given.absent)
    with put_off("later"):
        assert importlib.import_module("later").value is given.value
    del sys.modules["later"]
    with put_off("later"):
        part = importlib.import_module("later.part")  # needs the package at once
    assert part.value is sys.modules["later"].value


def test_garbage_waits_until_an_import_is_over() -> None:
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


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
