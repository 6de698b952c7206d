"""The page of who did what by this console."""

from typing import Final

from starlette.requests import Request

from wakelog.console.audit_log import Entry
from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.console.views.lists import Head, listed

HEADS: Final = (
    Head("at", "When"),
    Head("account", "Who"),
    Head("address", "From"),
    Head("", "Command"),
    Head("result", "Result"),
)


async def audit(console: Console, request: Request) -> Page:
    """Show the newest actions, sorted and filtered by the URL."""

    def text(entry: Entry) -> str:
        return f"{entry.account} {entry.address} {entry.command} {entry.result}"

    found = listed(
        list(console.audit.entries),
        HEADS,
        dict(request.query_params),
        text=text,
        keys={
            "at": lambda entry: entry.at_ms,
            "account": lambda entry: entry.account,
            "address": lambda entry: entry.address,
            "result": lambda entry: entry.result,
        },
        sort="-at",
    )
    return Page("audit.html", "Audit", {"entries": found}, here="audit")


PAGES: Final = (PageRoute("/audit", audit),)
