"""`./dev simulate` counts images, says its result, and replays from the line it prints."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.simulation import __main__ as command
from tests.simulation import blocks, trial
from tests.simulation.__main__ import Campaign
from tests.simulation.blocks import Progress
from tests.simulation.campaign import Found, short_seeds
from tests.simulation.mutants import MUTANTS

pytestmark = pytest.mark.simulation


ROOT = Path(__file__).resolve().parents[2]
HERE = ("--processes", "1", "--block", "2")


@pytest.fixture
def few_afterlives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Crash one recovery of a workload: the command is tried here, not the store."""
    monkeypatch.setattr(trial, "AFTERLIVES_MAX", 1)


@pytest.mark.usefixtures("few_afterlives")
def test_a_run_says_what_it_counted(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--images", "20", "--seed", "12", *HERE]
    assert command.main(asked) == 0
    said = capsys.readouterr()
    kept = msgspec.json.decode(said.out, type=Campaign)
    assert kept.images >= 20 and kept.first_seed == 12 and kept.violations == 0
    assert sum(kept.images_by_generation.values()) == kept.images
    assert "100.0%" in said.err


@pytest.mark.long
def test_two_processes_come_to_the_same_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--images", "300", "--seed", "8", "--processes", "1", "--block", "1"]
    assert command.main(asked) == 0
    asked[asked.index("--processes") + 1] = "2"
    run = (sys.executable, "-m", "tests.simulation", *asked)
    done = subprocess.run(run, capture_output=True, check=True, cwd=ROOT, timeout=60)
    here, there = (
        msgspec.structs.replace(msgspec.json.decode(said, type=Campaign), cpu_seconds=0)
        for said in (capsys.readouterr().out, done.stdout)
    )
    assert here == there and here.last_seed > 8


@pytest.mark.usefixtures("few_afterlives")
def test_what_is_found_is_replayed_from_the_line_that_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "FOUND_MAX", 1)
    with MUTANTS["dispatch_past_readable"].active():
        assert command.main(["--seed", "8", *HERE]) == 1
        said = capsys.readouterr().out.splitlines()
        assert "replay: ./dev simulate --replay 8" in said
        for seeds in ("8", "7-8"):
            with pytest.raises(Found) as found:
                command.main(["--replay", seeds])
            assert str(found.value.violation) in said
    assert command.main(["--replay", "8"]) == 0


def test_the_bar_shows_rate_and_time_left_of_the_current_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = iter((100.0, 110.0))
    command.progress_bar(1000, now=lambda: next(clock))(Progress(500, 79))
    assert capsys.readouterr().err.strip() == (
        "############............  50.0% 500 images, 50/s, 0:10 left, seed 79"
    )


def test_short_workloads_come_first() -> None:
    assert [len(short_seeds(length)) for length in (1, 2, 3)] == [20, 220, 2220]
