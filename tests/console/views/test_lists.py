"""Lists that the URL sorts, filters and divides into pages."""

from collections.abc import Mapping

import pytest

from wakelog.console.views.lists import Head, Listed, ListOf

Row = tuple[str, int | None]
ROWS: list[Row] = [("beta", 2), ("Alpha", None), ("gamma", 1)]
LIST = ListOf(
    (
        Head("name", "Name", lambda row: row[0].lower()),
        Head("size", "Size", lambda row: row[1], is_number=True),
    ),
    text=lambda row: row[0],
    sort="name",
)


def shown(query: Mapping[str, str], rows: list[Row] = ROWS, rows_a_page: int = 100) -> Listed[Row]:
    return LIST._replace(rows_a_page=rows_a_page).page(rows, query)


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("", ["Alpha", "beta", "gamma"]),
        ("-name", ["gamma", "beta", "Alpha"]),
        ("size", ["gamma", "beta", "Alpha"]),
        ("-size", ["beta", "gamma", "Alpha"]),
        ("no-such-column", ["Alpha", "beta", "gamma"]),
    ],
)
def test_the_url_sorts_and_what_is_not_known_comes_last(sort: str, names: list[str]) -> None:
    assert [name for name, _ in shown({"sort": sort}).rows] == names


def test_the_url_filters_in_any_case() -> None:
    found = shown({"q": " AL "})
    assert [name for name, _ in found.rows] == ["Alpha"] and found.total == 1


@pytest.mark.parametrize(("page", "number"), [("", 1), ("2", 2), ("9", 3), ("0", 1), ("x", 1)])
def test_a_page_that_is_not_there_is_the_nearest(page: str, number: int) -> None:
    rows: list[Row] = [(f"{n:03}", n) for n in range(25)]
    found = shown({"page": page}, rows, rows_a_page=10)
    assert (found.page, found.pages_count, found.total) == (number, 3, 25)
    assert next(size for _, size in found.rows) == (number - 1) * 10


def test_links_keep_what_the_url_says() -> None:
    found = shown({"q": "a", "sort": "size", "page": "2", "all": "1"})
    assert found.sorted_by("size") == "?q=a&sort=-size&all=1"
    assert found.sorted_by("name") == "?q=a&sort=name&all=1"
    assert found.at_page(3) == "?q=a&sort=size&page=3&all=1"
    assert found.at_page(1) == "?q=a&sort=size&all=1"
    assert shown({}).at_page(1) == "?"


@pytest.mark.parametrize("page", ["9" * 5_000, "\u0661", "-1", "1e9", "0x1", ""])
def test_a_page_that_is_no_number_is_the_first(page: str) -> None:
    assert shown({"page": page}, rows_a_page=1).page == 1
