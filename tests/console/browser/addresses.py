"""The addresses of a console's pages: from its routes, and from what its pages link to."""

import html
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.console.site import Browser
from wakelog.console.pages.app import PAGES, page_at

ROUTES: Final = tuple(row.path for row in PAGES)
DISTINCT_ROUTES: Final = tuple({row.handler: row.path for row in reversed(PAGES)}.values())[::-1]
"""The first route of each page: what others lead to is the same page."""
ADDRESSES_MAX: Final = 500
SOME_ROUTES: Final = [
    path if number % 3 == 0 else pytest.param(path, marks=pytest.mark.long)
    for number, path in enumerate(DISTINCT_ROUTES)
]
"""Those of every day: pages have their frame and their parts in common."""

_LINK: Final = re.compile(r'(?:href|action)="([^"]*)"')
_STREAM: Final = re.compile(r'data-url="([^"]*)"')
_DECIDING: Final = ("tab", "body", "live", "all")
"""Fields of a URL whose value decides what a page has."""


@dataclass
class Addresses:
    """What was found. of_pages: by route, those that differ in what they have.

    A route that answers with files, streams or other pages alone has an empty list there.
    failed: what is linked to, and does not work.
    """

    of_pages: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    failed: list[str] = field(default_factory=list)


def addresses_of(browser: Browser) -> Addresses:
    """Return the addresses of pages: the routes without a name in them, and what they lead to."""
    found = Addresses()
    waiting = [(path, "the routes") for path in ROUTES if "{" not in path]
    known = {_shape(address) for address, _ in waiting}
    while waiting:
        address, place = waiting.pop(0)
        row, _ = page_at(unquote(urlsplit(address).path))
        answer = browser.get(address)
        if row is None or answer.status >= 400:
            found.failed.append(f"{address}, which {place} has, answers {answer.status}")
            continue
        found.of_pages[row.path] += [address] if 'id="main"' in answer.html else []
        for each in _STREAM.findall(answer.html):
            stream, _ = page_at(unquote(urlsplit(html.unescape(each)).path))
            found.of_pages[stream.path if stream else each] += []
        new = {_shape(each): each for each in _links(answer.html, address)}
        waiting += [(each, address) for shape, each in new.items() if shape not in known]
        known |= new.keys()
        assert len(known) < ADDRESSES_MAX
    return found


def _links(text: str, here: str) -> Iterator[str]:
    """Yield the links of a page to others of the console, without what is in a page only."""
    for each in (html.unescape(x).partition("#")[0] for x in _LINK.findall(text)):
        if each.startswith("?"):
            yield here.partition("?")[0] + each
        elif each.startswith("/") and not each.startswith("/static/"):
            yield each


def _shape(address: str) -> tuple[object, ...]:
    """Return what an address has in common with others of the same page for other things."""
    row, parts = page_at(unquote(urlsplit(address).path))
    query = parse_qs(urlsplit(address).query)
    action = parts.get("name", "") if row is not None and row.path.startswith("/do/") else ""
    values = tuple(query.get(name, [""])[0] for name in _DECIDING)
    return (row.path if row else address, action, values, tuple(sorted(query)))
