"""Pages of clients: consumers that are online, and producers."""

import shlex
from typing import Any, Final

from starlette.requests import Request

from wakelog.client.errors import ClientError, within
from wakelog.console.pages.site import Console, Page, PageRoute, path
from wakelog.console.views import clients as views

TABS: Final = (("consumers", "Consumers", "/clients"), ("producers", "Producers", "/producers"))
PRODUCERS_SECONDS_MAX: Final = 3.0


async def clients(console: Console, request: Request) -> Page:
    """Show the consumers, sorted and filtered by the URL."""
    found = views.CLIENTS.page(views.rows(console.reader.shown), dict(request.query_params))
    return Page("clients.html", "Clients", {"clients": found, "tabs": TABS}, here="clients")


async def producers(console: Console, request: Request) -> Page:
    """Show the producers that brokers name; or those of a group, at the brokers of a topic."""
    query, shown = dict(request.query_params), console.reader.shown
    group, topic = (query.get(name, "").strip() for name in ("group", "topic"))
    values: dict[str, Any] = {
        "tabs": TABS,
        "producers": views.PRODUCERS.page(views.producer_rows(shown), query),
        "without": views.without_producers(shown),
        "group": group,
        "topic": topic,
        "connected": None,
        "failed": None,
        "command": shlex.join(["wakelog", "admin", "producerConnection", "-g", group, "-t", topic]),
        "clear": path("producers"),
    }
    if group and topic:
        try:
            async with within(PRODUCERS_SECONDS_MAX, f"no broker of {topic} has answered"):
                found = await console.admin.producers(group, topic)
            values["connected"] = views.connected(group, found)
        except ClientError as error:
            values["failed"] = error
    is_live = not (group or topic)
    return Page("producers.html", "Producers", values, here="clients", is_live=is_live)


PAGES: Final = (PageRoute("/clients", clients), PageRoute("/producers", producers))
