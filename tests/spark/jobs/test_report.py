"""The page of a log that is known, by function and command."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyspark.sql import SparkSession

from tests.cli.test_spark import run
from tests.fakes.records import STORE_MS, LogBytes, properties
from tests.spark.logs import write_segments
from wakelog.spark.errors import JobFailed
from wakelog.spark.jobs.report import consuming_groups, report


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store of 40 messages in two topics; group G is three behind, group H none."""
    log = LogBytes(1 << 16)
    for i in range(40):
        log.add(
            properties(KEYS=f"k{i % 4}"),
            topic="AB"[i % 2],
            queue_offset=i // 2,
            store_timestamp_ms=STORE_MS + 250 * i,
            born_timestamp_ms=STORE_MS + 250 * i - i,
        )
    write_segments(tmp_path / "store" / "commitlog", log)
    config = tmp_path / "store" / "config"
    config.mkdir()
    table = {"A@G": {"0": 17}, "B@G": {"0": 20}, "B@H": {"0": 20}, "%RETRY%G@G": {"0": 0}}
    (config / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    return str(tmp_path / "store")


def test_groups_are_those_of_the_topics_that_are_read(store: str) -> None:
    assert consuming_groups(store, {}) == {"G": ["%RETRY%G", "A", "B"], "H": ["B"]}
    assert consuming_groups(store, {"topic": "A"}) == {"G": ["A"]}


def test_a_folder_is_no_page(store: str, tmp_path: Path) -> None:
    for into in (tmp_path, tmp_path / "nowhere" / "page.html"):
        with pytest.raises(JobFailed, match="give a file in a folder that is there"):
            report(None, store, str(into))  # type: ignore[arg-type]


@pytest.mark.spark
@pytest.mark.slow
def test_the_page_has_topics_and_groups(
    spark: SparkSession, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = str(tmp_path / "page.html")
    assert run("report", "--store", store, "--into", into) == 0
    said = "drawn: 40 messages of 2 topics, 2 groups, into "
    assert capsys.readouterr().out == f"{said}{into}\n"
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    text = re.sub(r"<script[^>]*>.*?</script>", "", text, flags=re.DOTALL)
    root = ElementTree.fromstring(text.removeprefix("<!doctype html>"))
    names = [each.findtext("h3") for each in root.iter("figure")]
    assert names == [
        "Messages a second", "Bytes a second", "A", "B", "A", "B", "G", "A", "B",
    ]  # fmt: skip
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".unfinished"] == []
