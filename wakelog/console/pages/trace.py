"""Pages of the traces of messages: what clients have recorded, by message id or key."""

from typing import Final

from starlette.requests import Request

from wakelog.client.errors import ClientError, within
from wakelog.client.trace_notes import TRACES_MAX, notes_of
from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.console.views.message_life import line_of
from wakelog.console.views.messages import visible
from wakelog.console.views.traces import by_message
from wakelog.protocol.names import TRACE_TOPIC

MESSAGES_MAX: Final = 20
"""Messages of one key whose traces are shown."""
SECONDS_MAX: Final = 5.0
FIELD_LENGTH_MAX: Final = 1_024


async def trace(console: Console, request: Request) -> Page:
    """Show what clients did with the messages of an id or a key, on lines of time."""
    query = request.query_params
    given = {x: query.get(x, "").strip()[:FIELD_LENGTH_MAX] for x in ("id", "key", "topic")}
    wanted, topic = given["id"] or given["key"], given["topic"] or TRACE_TOPIC
    failed: ClientError | None = None
    found, limits, status = [], [], 200
    if wanted:
        try:
            async with within(SECONDS_MAX, "no answer", "See whether brokers run"):
                rows, is_all = await notes_of(console.admin, wanted, topic, is_id=bool(given["id"]))
            found = by_message(rows)
            if not is_all:
                limits.append(f"{TRACES_MAX} messages of the trace topic were read")
            if len(found) > MESSAGES_MAX:
                limits.append(f"the first {MESSAGES_MAX} of {len(found):,} messages are shown")
        except ClientError as error:
            failed, status = error, 502 if error.passes else 404
    values = {
        "given": given,
        "wanted": visible(wanted),
        "trace_topic": topic,
        "default_topic": TRACE_TOPIC,
        "found": [(each, line_of(each.events)) for each in found[:MESSAGES_MAX]],
        "limits": limits,
        "failed": failed,
    }
    return Page("trace.html", "Trace", values, "trace", status, is_live=False)


PAGES: Final = (PageRoute("/trace", trace),)
