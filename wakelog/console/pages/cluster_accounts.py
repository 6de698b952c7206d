"""The page of access control: accounts and white lists by broker, and "may X do Y on Z?"."""

from typing import Final

from starlette.requests import Request

from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.console.views import cluster_accounts as views


async def access(console: Console, request: Request) -> Page:
    """Show the accounts, filtered by the URL, and answer the question that the URL asks."""
    reader, query = console.reader, dict(request.query_params)
    shown = await reader.accounts.get()
    wanted = views.asked(query)
    values = {
        "accounts": views.ACCOUNTS.page(views.rows(shown.value), query),
        "white_lists": views.white_lists(shown.value),
        "off": views.off(shown.value),
        "failure": shown.failure,
        "operations": views.OPERATIONS,
        "query": query,
        "asked": wanted,
        "judged": views.judged(shown.value, wanted) if wanted and not wanted.wrong else [],
        "versions": [
            (f"{each.broker} ({each.broker_id})", path, version)
            for each in shown.value
            for path, version in sorted(each.versions.items())
        ],
        "is_on": any(each.is_on for each in shown.value),
        "cluster_name": next((each.cluster for each in reader.shown.brokers), ""),
    }
    return Page("access.html", "Access", values, here="access")


PAGES: Final = (PageRoute("/access", access),)
