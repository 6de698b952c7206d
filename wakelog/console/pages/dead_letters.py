"""Pages of what groups gave up: how many each has, and the letters of one, to be sent again."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from wakelog.client.message_search import Found, SearchBounds
from wakelog.console.pages.messages import found_messages
from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.console.views.messages import MessageQuery, rows_of, visible
from wakelog.protocol.names import DLQ_PREFIX

GROUPS_MAX: Final = 100
LIMITS: Final = SearchBounds(rows=100)
"""Of the letters of a group that a page shows, the newest first."""


async def group_list(console: Console, request: Request) -> Page:
    """Show the groups that have dead letters, the most first."""
    reader = console.reader
    counts = {name: count for name, count in reader.shown.dead_letters.items() if count}
    names = sorted(counts, key=lambda name: (-counts[name], name))
    ends = await reader.topic_ends(DLQ_PREFIX + name for name in names[:GROUPS_MAX])
    rows = [(name, counts[name], ends.get(DLQ_PREFIX + name)) for name in names[:GROUPS_MAX]]
    values = {"rows": rows, "total": len(names)}
    return Page("dead_letters.html", "Dead letters", values, here="dead_letters")


async def letters(console: Console, request: Request) -> Page:
    """Show the newest dead letters of a group, within the limits of a search."""
    name, shown = request.path_params["group"], console.reader.shown
    topic, found = DLQ_PREFIX + name, Found()
    if any(topic in broker.topics for broker in shown.brokers):
        found = await found_messages(console, MessageQuery(topic=topic), LIMITS)
    elif name not in shown.groups:
        raise HTTPException(404, f"No broker knows the group {name}")
    values = {
        "name": name,
        "letters": rows_of(found.messages),
        "limits": [visible(each) for each in found.limits],
    }
    return Page("letters.html", f"Dead letters of {name}", values, "dead_letters", is_live=False)


PAGES: Final = (
    PageRoute("/dead-letters", group_list),
    PageRoute("/dead-letters/{group:name}", letters),
)
