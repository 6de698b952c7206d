"""The first page: what is wrong, in words."""

import shlex
from typing import Final

from starlette.requests import Request

from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.console.views import topics, verdict


async def overview(console: Console, request: Request) -> Page:
    """Show the verdict and the rates."""
    reader = console.reader
    return Page(
        "overview.html",
        "Overview",
        {
            "lines": verdict.lines(reader.findings),
            "summary": verdict.summary(reader.findings),
            "figures": verdict.figures(reader.shown),
            "courses": verdict.courses(reader.history),
            "changed": verdict.changed(reader.history),
            "quoted_name_server": shlex.quote(console.name_server),
            "is_empty": reader.is_whole and not topics.rows(reader.shown, {}, shows_all=False),
        },
        here="overview",
    )


PAGES: Final = (PageRoute("/", overview),)
