"""A table's rows as text and as JSON."""

import json
import time
from collections.abc import Iterator
from datetime import date, datetime

import pytest

from wakelog.cli.spark_tables import json_lines, text_lines

NAMES = ("topic", "count", "share", "time")
ROWS = [
    ("orders", 12, 0.25, datetime(2026, 1, 1, 23, 4, 5, 678000)),
    (None, 3, None, date(2026, 1, 2)),
]


@pytest.fixture(autouse=True)
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be where it is four hours earlier: times come in the process's own zone."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/Caracas")
        time.tzset()
        yield
    time.tzset()


def test_columns_are_aligned() -> None:
    assert list(text_lines(NAMES, ROWS)) == [
        "topic   count  share  time",
        "orders     12  0.250  2026-01-02 03:04:05.678Z",
        "-           3      -  2026-01-02",
    ]
    assert list(text_lines(NAMES, [])) == []


def test_json_has_a_line_a_row() -> None:
    first, second = (json.loads(line) for line in json_lines(NAMES, ROWS))
    assert first["time"] == "2026-01-02T03:04:05.678000+00:00"
    assert second == {"topic": None, "count": 3, "share": None, "time": "2026-01-02"}


def test_the_last_time_that_there_is_has_a_text() -> None:
    [line] = json_lines(["time"], [[datetime.max]])
    assert json.loads(line)["time"].startswith("9999-12-31T23:59:59")
