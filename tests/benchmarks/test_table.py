"""The page of results: each row once, what was missed marked, what is not there said."""

from benchmarks.rows import ROWS
from benchmarks.table import render_page, summary_line
from tests.benchmarks.examples import example, row_named


def test_each_row_has_a_line_and_a_section() -> None:
    page = render_page({row.name: example(row, 1.0, 1.5, 2.0) for row in ROWS})
    for row in ROWS:
        assert f"\n## {row.name}\n" in page
        assert page.count(f"\n| {row.name}, {row.figures[0].unit} |") == 1
    assert "| sync-1, messages/s | 150 | 100 | 1.50 | 1.00 to 2.00 | 0.95 |" in page
    assert "Not measured yet" not in page
    assert "Busy with wakelog, of a core: the driver 80 %." in page


def test_what_was_not_measured_is_named() -> None:
    page = render_page({"sync-1": example(ROWS[0], 1.0)})
    waiting = page.partition("Not measured yet:")[2].partition("#")[0]
    assert waiting.split() == [word for row in ROWS[1:] for word in ("-", row.name)]


def test_a_missed_promise_stands_out_on_the_page_and_in_the_terminal() -> None:
    row = row_named("flush-1")
    result = example(row, 0.5)
    assert "| flush-1, messages/s | 50 | 100 | **0.50** |" in render_page({row.name: result})
    assert summary_line(row, result).endswith("MISSED: per_second, broker_cpu")
    assert "MISSED" not in summary_line(row, example(row, 1.0))


def test_a_row_without_a_sound_pair_says_why() -> None:
    row = row_named("flush-1")
    result = example(row) | {"void": ["wakelog: 3 client errors"]}
    assert summary_line(row, result).endswith("void: wakelog: 3 client errors")
