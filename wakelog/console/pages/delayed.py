"""The page of delayed messages: what waits by broker and level, and what comes next."""

from typing import Final

from starlette.requests import Request

from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.console.views import delayed as views
from wakelog.console.views import verdict
from wakelog.console.waiting import DUE_A_LEVEL_MAX


async def delayed(console: Console, request: Request) -> Page:
    """Show the levels, sorted and filtered by the URL, and the next messages."""
    reader = console.reader
    rows = views.rows(reader.history, reader.shown)
    next_due = await reader.next_due.get()
    wrong = [each for each in reader.findings if each.rule == "delayed overdue"]
    values = {
        "summary": views.summary(rows, reader.now_ms),
        "wrong": verdict.lines(wrong),
        "levels": views.LEVELS.page(rows, dict(request.query_params)),
        "unread": views.unread(reader.shown),
        "is_inexact": views.is_any_inexact(reader.shown),
        "messages": views.due_rows(next_due.value, reader.now_ms),
        "failure": next_due.failure,
        "due": views.due_text,
        "a_level_max": DUE_A_LEVEL_MAX,
    }
    return Page("delayed.html", "Delayed messages", values, here="delayed")


PAGES: Final = (PageRoute("/delayed", delayed),)
