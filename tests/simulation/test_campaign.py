"""`./dev simulate` counts images, keeps its result, and replays from the line it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulation import __main__ as command
from tests.simulation.campaign import Found, short_seeds
from tests.simulation.mutants import MUTANTS

pytestmark = pytest.mark.simulation


def test_a_run_keeps_what_it_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "RESULT", tmp_path / "simulation.json")
    assert command.main(["--images", "20", "--seed", "12"]) == 0
    kept = json.loads((tmp_path / "simulation.json").read_text())
    assert kept["images"] >= 20 and kept["first_seed"] == 12 and kept["violations"] == 0
    assert sum(kept["images_by_generation"].values()) == kept["images"]
    assert json.loads(capsys.readouterr().out) == kept


def test_what_is_found_is_replayed_from_the_line_that_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with MUTANTS["dispatch_past_readable"].active():
        assert command.main(["--images", "10000", "--seed", "8", "--no-result"]) == 1
        said = capsys.readouterr().out.splitlines()
        assert said[-1] == "replay: ./dev simulate --replay 8"
        with pytest.raises(Found) as found:
            command.main(["--replay", "8"])
        assert str(found.value.violation) in said
    assert command.main(["--replay", "8"]) == 0


def test_short_workloads_come_first() -> None:
    assert [len(short_seeds(length)) for length in (1, 2, 3)] == [20, 220, 2220]
