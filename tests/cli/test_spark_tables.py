"""A table's rows as text and as JSON."""

from __future__ import annotations

import json
from datetime import date, datetime

from wakelog.cli.spark_tables import json_lines, text_lines

NAMES = ("topic", "count", "share", "time")
ROWS = [
    ("orders", 12, 0.25, datetime(2026, 1, 2, 3, 4, 5, 678000)),
    (None, 3, None, date(2026, 1, 2)),
]


def test_columns_are_aligned() -> None:
    assert list(text_lines(NAMES, ROWS)) == [
        "topic   count  share  time",
        "orders     12  0.250  2026-01-02 03:04:05.678",
        "-           3      -  2026-01-02",
    ]
    assert list(text_lines(NAMES, [])) == []


def test_json_has_a_line_a_row() -> None:
    first, second = (json.loads(line) for line in json_lines(NAMES, ROWS))
    assert first["time"] == "2026-01-02T03:04:05.678000"
    assert second == {"topic": None, "count": 3, "share": None, "time": "2026-01-02"}
