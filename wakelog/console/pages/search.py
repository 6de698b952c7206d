"""The page of a search over the cluster; one exact hit leads to its page at once."""

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from wakelog.console.pages.site import Console, Page, PageRoute, path
from wakelog.console.views import search as views


async def search(console: Console, request: Request) -> Page | Response:
    """Show what a word is found in."""
    word = request.query_params.get("q", "")
    found = views.search(word, console.reader.shown)
    if (one := views.exact(word, found)) is not None:
        return RedirectResponse(path(*one.parts), 303)
    values = {"word": word.strip(), "found": found, "found_max": views.FOUND_MAX}
    return Page("search.html", "Search", values, is_live=False)


PAGES: Final = (PageRoute("/search", search),)
