"""Lists that the URL sorts, filters and divides into pages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

ROWS_A_PAGE: Final = 100
PAGE_DIGITS_MAX: Final = 9

Row = TypeVar("Row")


class Head(NamedTuple):
    """The head of a column. key: sorts rows by it, "" if it cannot; is_number: to the right."""

    key: str
    text: str
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


def listed(
    rows: Sequence[Row],
    heads: Sequence[Head],
    query: Mapping[str, str],
    *,
    text: Callable[[Row], str],
    keys: Mapping[str, Callable[[Row], Any]],
    sort: str,
    rows_a_page: int = ROWS_A_PAGE,
) -> Listed[Row]:
    """Return one page of a list.

    query: `q` filters by a part of the text, `sort` names a column (`-` before it: downwards), and
    `page` counts from 1. What is no column or no page is as if it were not given.
    text: what the filter looks at. keys: what each column is sorted by; None comes last.
    sort: without one in the query.
    """
    wanted = query.get("q", "").strip()
    fitting = [row for row in rows if wanted.lower() in text(row).lower()] if wanted else rows
    order = query.get("sort", "")
    if order.removeprefix("-") not in keys:
        order = sort
    key = keys[order.removeprefix("-")]
    known = [row for row in fitting if key(row) is not None]
    unknown = [row for row in fitting if key(row) is None]
    known.sort(key=key, reverse=order.startswith("-"))
    ordered = known + unknown
    pages_count = max(1, -(-len(ordered) // rows_a_page))
    page = _page_number(query.get("page", ""), pages_count)
    shown = ordered[(page - 1) * rows_a_page : page * rows_a_page]
    return Listed(shown, heads, len(ordered), page, pages_count, order, wanted, dict(query))


def _page_number(text: str, pages_count: int) -> int:
    is_page = text.isascii() and text.isdigit() and len(text) <= PAGE_DIGITS_MAX
    return min(max(1, int(text)), pages_count) if is_page else 1
