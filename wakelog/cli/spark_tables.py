"""Prints the rows of a job's table: in aligned columns, or each as a line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

from wakelog.cli.output import aligned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOTHING: Final = "-"


def print_table(table: DataFrame, limit: int, *, as_json: bool) -> bool:
    """Print the first rows, and on stderr whether there are more; return whether there are any."""
    found = [tuple(row) for row in table.limit(limit + 1).collect()]
    for line in (json_lines if as_json else text_lines)(table.columns, found[:limit]):
        print(line)
    if len(found) > limit:
        print(f"only the first {limit} rows: --limit shows more", file=sys.stderr)
    return bool(found)


def json_lines(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield a JSON object for each row."""
    for row in rows:
        yield json.dumps(dict(zip(names, map(_plain, row), strict=True)), ensure_ascii=False)


def text_lines(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield names and rows in columns, numbers aligned to the right; nothing without rows."""
    if not rows:
        return
    cells = [names, *([_text(value) for value in row] for row in rows)]
    numbers = [
        all(value is None or isinstance(value, int | float) for value in column)
        for column in zip(*rows, strict=True)
    ]
    yield from aligned(cells, numbers)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return _in_utc(value).isoformat()
    return value.isoformat() if isinstance(value, date) else value


def _text(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, datetime):
        moment = _in_utc(value).isoformat(sep=" ", timespec="milliseconds")
        return moment.replace("+00:00", "Z")
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _in_utc(moment: datetime) -> datetime:
    """Convert a time, which Spark gives in the zone of this process, to UTC."""
    try:
        return moment.astimezone(UTC)
    except (OverflowError, ValueError):  # in the first or the last possible year
        return moment.replace(tzinfo=UTC)
