"""The page of who did what by this console."""

from typing import Final

from starlette.requests import Request

from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.console.views.lists import Head, ListOf

ENTRIES: Final = ListOf(
    (
        Head("at", "When", lambda entry: entry.at_ms),
        Head("account", "Who", lambda entry: entry.account),
        Head("address", "From", lambda entry: entry.address),
        Head("", "Command"),
        Head("result", "Result", lambda entry: entry.result),
    ),
    text=lambda entry: " ".join(entry[1:]),
    sort="-at",
)


async def audit(console: Console, request: Request) -> Page:
    """Show the newest actions, sorted and filtered by the URL."""
    found = ENTRIES.page(console.audit.entries, dict(request.query_params))
    return Page("audit.html", "Audit", {"entries": found}, here="audit")


PAGES: Final = (PageRoute("/audit", audit),)
