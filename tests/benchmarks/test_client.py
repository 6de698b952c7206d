"""The rows of the Python client: turns, figures, page."""

import os
import tempfile
from pathlib import Path

import msgspec
import pytest

from benchmarks.client import (
    JSON_NAME,
    ROWS,
    TABLE_NAME,
    Found,
    Row,
    Targets,
    main,
    measure,
    table,
    write,
)
from benchmarks.others import KAFKA_LOCK, NAMES, Ran
from tests.compat.maven import read_artifacts


def test_rows_take_turns_over_topics_of_their_own() -> None:
    seen: list[str] = []

    async def run(targets: Targets, topic: str, count: int) -> Ran:
        seen.append(topic)
        return Ran(count / 1000, count / 2000)

    rows = [Row(name, 50, run) for name in ("a", "b")]
    found = measure(Targets("", None, None, None, {}), rows, 2, lambda line: None)
    assert seen == ["bench-0-0", "bench-1-0", "bench-0-1", "bench-1-1"]
    assert [each.per_second for each in found] == [[1000.0, 1000.0]] * 2
    assert [each.client_cpu for each in found] == [[0.5, 0.5]] * 2


def test_a_result_is_a_line_a_row_and_a_page(tmp_path: Path) -> None:
    found = [Found("a", 10, [1.0, 3000.0, 2.0], [0.5, 0.25, 0.75])]
    write(found, tmp_path)
    assert msgspec.json.decode((tmp_path / JSON_NAME).read_bytes(), type=list[Found]) == found
    assert (tmp_path / TABLE_NAME).read_text() == table(found)
    assert "| a | 2 | 1 | 3,000 | 0.50 |" in table(found)


def test_each_other_system_sends_one_by_one_and_many_and_is_consumed() -> None:
    for system, name in NAMES.items():
        assert len([row for row in ROWS if row.system == system and row.name.endswith(name)]) == 3
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_a_server_that_is_not_here_is_named_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    before = tempfile.gettempdir(), os.environ.get("TMPDIR")
    assert main(["--row", "Redis"]) == 1
    assert (tempfile.gettempdir(), os.environ.get("TMPDIR")) == before
    assert "redis-server is not on PATH: apt-get install redis-server" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--without", "pulsar"])


def test_kafkas_jars_are_listed() -> None:
    assert any(one.name == "kafka_2.13" for one in read_artifacts(KAFKA_LOCK))
