"""The page of consumers that are online."""

from typing import Final

from starlette.requests import Request

from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.console.views import clients as views


async def clients(console: Console, request: Request) -> Page:
    """Show the clients, sorted and filtered by the URL."""
    found = views.client_list(views.rows(console.reader.shown), dict(request.query_params))
    return Page("clients.html", "Clients", {"clients": found}, here="clients")


PAGES: Final = (PageRoute("/clients", clients),)
