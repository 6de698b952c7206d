"""The page of transactions: half messages that wait for their end, and those given up."""

from typing import Final

from starlette.requests import Request

from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.console.views import delayed, verdict
from wakelog.console.views import transactions as views


async def transactions(console: Console, request: Request) -> Page:
    """Show what is open, by broker and producer group, and what was given up."""
    reader = console.reader
    shown = await reader.open_halves.get()
    found = shown.value
    groups = views.group_rows(found)
    wrong = [each for each in reader.findings if each.rule == "half overdue"]
    values = {
        "summary": views.summary(found, reader.now_ms),
        "wrong": verdict.lines(wrong),
        "brokers": views.broker_rows(reader.shown, found),
        "groups": groups[: views.GROUPS_SHOWN_MAX],
        "groups_total": len(groups),
        "halves": views.oldest(found),
        "given_up": views.given_up(found),
        "limits": views.limits(found),
        "unread": delayed.unread(reader.shown),
        "failure": shown.failure,
    }
    return Page("transactions.html", "Transactions", values, here="transactions")


PAGES: Final = (PageRoute("/transactions", transactions),)
