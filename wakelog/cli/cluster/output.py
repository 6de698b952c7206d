"""Columns as wide as their cells. As JSON: one object a row, with the same values."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from wakelog.cli.output import aligned, named_values
from wakelog.protocol.java import exact_time


class Moment(int):
    """Milliseconds since 1970, which a table shows as a local time; 0 is no time."""

    def __str__(self) -> str:
        """Return the local time, "-" for none."""
        return exact_time(int(self)) if self > 0 else "-"


class Columns(NamedTuple):
    """Rows under heads; `nothing` is said in a table without rows.

    shows_heads: False for rows that come after others, under the same heads.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]
    nothing: str = "nothing"
    shows_heads: bool = True

    def lines(self) -> Iterator[str]:
        """Yield the heads and each row, numbers to the right."""
        if not self.rows:
            yield self.nothing
            return
        texts = [[_text(cell) for cell in row] for row in self.rows]
        is_number = [
            all(_is_number(row[n]) for row in self.rows if row[n] is not None)
            for n in range(len(self.heads))
        ]
        lines = aligned([[head.upper() for head in self.heads], *texts], is_number)
        yield from lines if self.shows_heads else islice(lines, 1, None)

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield each row by its heads, in camel case; no time is None."""
        rows = [
            [None if isinstance(cell, Moment) and cell <= 0 else cell for cell in row]
            for row in self.rows
        ]
        return named_values(self.heads, rows)


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, Moment | bool)


def _text(cell: object) -> str:
    if cell is None or cell == "":
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:,.1f}"
    if isinstance(cell, list):
        return ",".join(map(str, cell)) or "-"
    return f"{cell:,}" if type(cell) is int else str(cell)
