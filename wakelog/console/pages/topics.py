"""Pages of topics: the list, and one topic with its queues, groups, configuration and sending."""

from typing import Final

from starlette.requests import Request

from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.console.views import topics as views


async def topic_list(console: Console, request: Request) -> Page:
    """Show the topics, sorted and filtered by the URL."""
    reader, query = console.reader, dict(request.query_params)
    found = views.rows(reader.shown, reader.known_ends, shows_all=query.get("all") == "1")
    listed = views.topic_list(found, query)
    ends = await reader.topic_ends(row.name for row in listed.rows)
    listed = listed._replace(rows=[row._replace(ends=ends.get(row.name)) for row in listed.rows])
    return Page("topics.html", "Topics", {"topics": listed, "all": query.get("all")}, here="topics")


PAGES: Final = (PageRoute("/topics", topic_list),)
