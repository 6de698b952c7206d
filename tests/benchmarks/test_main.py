"""The command line: which rows, how many pairs, and where results go."""

from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.__main__ import PAGE_NAME, PAIRS_COUNT, read_options, render
from benchmarks.kept import RESULTS
from benchmarks.rows import ROWS
from benchmarks.sides import RocketMQ, Wakelog
from benchmarks.table import PICTURE_NAME
from tests.benchmarks.examples import example


def test_without_arguments_all_rows_go_to_the_results_folder() -> None:
    options = read_options([])
    assert (options.rows, options.pairs_count) == (list(ROWS), PAIRS_COUNT)
    assert options.output == RESULTS


def test_rows_keep_their_order() -> None:
    options = read_options(["--row", "idle", "--row", "sync-1"])
    assert [row.name for row in options.rows] == ["sync-1", "idle"]


def test_fewer_pairs_replace_no_result(tmp_path: Path) -> None:
    assert read_options(["--pairs", "1"]).output is None
    folder = tmp_path / "new"
    assert read_options(["--pairs", "1", "--output", str(folder)]).output == folder
    assert folder.is_dir()


def test_another_checkout_takes_the_place_of_rocketmq_and_no_result_is_kept(
    tmp_path: Path,
) -> None:
    assert read_options([]).other is RocketMQ
    make_environment(tmp_path, tmp_path / "wakelog" / "__init__.py")
    options = read_options(["--against", str(tmp_path)])
    assert (options.other.name, options.output) == ("other", None)
    assert issubclass(options.other, Wakelog)
    assert options.other.python == str(tmp_path / ".venv" / "bin" / "python")
    assert Wakelog.python != options.other.python


def make_environment(checkout: Path, package: Path) -> None:
    """Stand in for an environment whose wakelog is this package."""
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho {package}\n")
    python.chmod(0o755)


def test_an_environment_with_the_wakelog_of_another_checkout_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_environment(tmp_path, Path("/elsewhere/wakelog/__init__.py"))
    with pytest.raises(SystemExit):
        read_options(["--against", str(tmp_path)])
    assert "imports /elsewhere/wakelog/__init__.py" in capsys.readouterr().err


def test_a_folder_for_results_beside_another_checkout_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read_options(["--against", str(tmp_path), "--output", str(tmp_path / "results")])
    assert "leave --output out" in capsys.readouterr().err


def test_an_unknown_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_options(["--row", "sync-65"])
    assert "sync-65" in capsys.readouterr().err


def test_page_and_picture_are_drawn_from_what_the_folder_has(tmp_path: Path) -> None:
    results.write(example(ROWS[0], 1.5), tmp_path)
    render(tmp_path)
    assert f"## {ROWS[0].name}" in (tmp_path / PAGE_NAME).read_text()
    assert f">{ROWS[0].name}<" in (tmp_path / PICTURE_NAME).read_text()
