"""The examples about Spark, run as they are, in the session that tests share."""

import runpy
import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples import spark_over_the_wire
from tests.compat.clusters import Cluster
from tests.documents import ROOT


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_the_walk_through_runs_to_its_end(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runpy.run_path(str(ROOT / "examples" / "spark_walkthrough.py"))
    printed = capsys.readouterr().out
    assert "messages followed: 400\nand after fifty more: 450\n" in printed
    assert "queues rebuilt: 5 keys: 900\n" in printed
    assert "rows exported: 450\n" in printed
    [page] = tmp_path.glob("*/report.html")
    assert f"look at {page}\n" in printed


def test_a_cell_begins_with_its_sign() -> None:
    lines = (ROOT / "examples" / "spark_walkthrough.py").read_text(encoding="utf-8").splitlines()
    cells = [line for line in lines if line.startswith("# %%")]
    assert set(cells) == {"# %%", "# %% [markdown]"}
    assert cells.count("# %%") == cells.count("# %% [markdown]") - 1  # the first says what it is


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.slow
def test_a_table_comes_back_over_the_wire(
    spark: SparkSession, local: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark_over_the_wire.main(local.name_server, "of_the_example") == 0
    assert "written 1000, read 1000" in capsys.readouterr().out
