"""Lists that the URL sorts, filters and divides into pages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

ROWS_A_PAGE: Final = 100
PAGE_DIGITS_MAX: Final = 9

Row = TypeVar("Row")


class Head(NamedTuple):
    """The head of a column. key: its name in the URL, "" if rows cannot be sorted by it.

    of: what of a row they are sorted by; None comes last. is_number: to the right.
    """

    key: str
    text: str
    of: Callable[[Any], Any] | None = None
    is_number: bool = False


class Listed(NamedTuple, Generic[Row]):
    """The rows of one page of a list, and what the URL says.

    total: rows that fit the filter. pages_count: at least 1. query: of the URL.
    """

    rows: Sequence[Row]
    heads: Sequence[Head]
    total: int
    page: int
    pages_count: int
    sort: str
    filter: str
    query: Mapping[str, str]

    def sorted_by(self, key: str) -> str:
        """Return the query that sorts by a column; once more turns it round."""
        return self._with(sort=f"-{key}" if self.sort == key else key, page="")

    def at_page(self, page: int) -> str:
        """Return the query of another page of the list."""
        return self._with(page=str(page) if page > 1 else "")

    def _with(self, **changed: str) -> str:
        given = {x: y for x, y in {**self.query, **changed}.items() if y}
        return f"?{urlencode(given)}" if given else "?"


class ListOf(NamedTuple):
    """A list. text: what of a row the filter looks at. sort: without one in the query."""

    heads: Sequence[Head]
    text: Callable[[Any], str]
    sort: str
    rows_a_page: int = ROWS_A_PAGE

    def page(self, rows: Sequence[Row], query: Mapping[str, str]) -> Listed[Row]:
        """Return one page of the list.

        query: `q` filters by a part of the text, `sort` names a column (`-` before it: downwards),
        and `page` counts from 1. What is no column or no page is as if it were not given.
        """
        keys = {head.key: head.of for head in self.heads if head.of is not None}
        wanted = query.get("q", "").strip()
        fitting = (
            [row for row in rows if wanted.lower() in self.text(row).lower()] if wanted else rows
        )
        order = query.get("sort", "")
        if order.removeprefix("-") not in keys:
            order = self.sort
        key = keys[order.removeprefix("-")]
        known = [row for row in fitting if key(row) is not None]
        unknown = [row for row in fitting if key(row) is None]
        known.sort(key=key, reverse=order.startswith("-"))
        ordered = known + unknown
        pages_count = max(1, -(-len(ordered) // self.rows_a_page))
        page = _page_number(query.get("page", ""), pages_count)
        shown = ordered[(page - 1) * self.rows_a_page : page * self.rows_a_page]
        return Listed(
            shown, self.heads, len(ordered), page, pages_count, order, wanted, dict(query)
        )


def _page_number(text: str, pages_count: int) -> int:
    is_page = text.isascii() and text.isdigit() and len(text) <= PAGE_DIGITS_MAX
    return min(max(1, int(text)), pages_count) if is_page else 1
