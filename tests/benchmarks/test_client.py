"""The rows of the Python client: turns, figures, page."""

from pathlib import Path

import msgspec

from benchmarks.client import JSON_NAME, TABLE_NAME, Found, Row, Targets, measure, table, write


def test_rows_take_turns_over_topics_of_their_own() -> None:
    seen: list[str] = []

    async def run(targets: Targets, topic: str, count: int) -> float:
        seen.append(topic)
        return count / 1000

    rows = [Row(name, 50, run) for name in ("a", "b")]
    found = measure(Targets("", None, None), rows, 2, lambda line: None)
    assert seen == ["bench-0-0", "bench-1-0", "bench-0-1", "bench-1-1"]
    assert [each.per_second for each in found] == [[1000.0, 1000.0]] * 2


def test_a_result_is_a_line_a_row_and_a_page(tmp_path: Path) -> None:
    found = [Found("a", 10, [1.0, 3000.0, 2.0], [0.5, 0.25, 0.75])]
    write(found, tmp_path)
    assert msgspec.json.decode((tmp_path / JSON_NAME).read_bytes(), type=list[Found]) == found
    assert (tmp_path / TABLE_NAME).read_text() == table(found)
    assert "| a | 2 | 1 | 3,000 | 0.50 |" in table(found)
