"""Pages of messages: found, followed, and the life of one.

Every search is bounded (`message_search.Limits`), and says which limit it reached.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from wakelog.client import message_search as search
from wakelog.client.errors import ClientError, InvalidArgument, within
from wakelog.client.message_filter import make_filter, pieces_of
from wakelog.client.message_life import life_of
from wakelog.client.message_search import Found, SearchBounds
from wakelog.client.received import ReceivedMessage
from wakelog.console.pages.site import SEARCHES_MAX, Console, Page, PageRoute, path
from wakelog.console.pages.streams import HeldResponse, hold
from wakelog.console.tails import TailOf
from wakelog.console.views import message_body, message_life
from wakelog.console.views import messages as views
from wakelog.console.views.messages import MessageQuery, visible
from wakelog.console.views.topics import kind_of

EXPORT_LIMITS: Final = SearchBounds(rows=1_000, examined=20_000, seconds=10.0)
ID_SECONDS_MAX: Final = 5.0
TAIL_WAIT_SECONDS: Final = 1.0
TAIL_PAUSE_SECONDS: Final = 0.25
"""Between two parts of a tail, so that a busy topic comes in few of them."""
TAIL_QUIET_WAITS: Final = 15
CLIENTS_SHOWN_MAX: Final = 20
LATE, SEE_BROKERS = "brokers did not answer", "See whether they run (Brokers)"


async def find(console: Console, request: Request) -> Page:
    """Show messages of the cluster that fit the URL."""
    return await _list(console, views.asked_of(request.query_params), "")


async def of_topic(console: Console, request: Request) -> Page:
    """Show messages of one topic, the newest first, or follow it."""
    topic = request.path_params["topic"]
    asked = views.asked_of(request.query_params, topic)
    return await _list(console, asked, topic, is_followed=request.query_params.get("live") == "1")


async def _list(
    console: Console, asked: MessageQuery, topic: str, *, is_followed: bool = False
) -> Page:
    found, failed, status = Found(), None, 200
    try:
        if not asked.is_empty:
            found = await found_messages(console, asked, SearchBounds())
    except ClientError as error:
        failed, status = error, _status_of(error)
    query = {x: y for x, y in asked.query.items() if not (topic and x == "topic")}
    base = ("topics", topic, "messages") if topic else ("messages",)
    filters = {x: query[x] for x in ("tag", "sql", "text") if x in query}
    values: dict[str, Any] = {
        "asked": asked,
        "topic": topic,
        "rows": views.rows_of(found.messages),
        "examined": found.examined,
        "limits": [visible(each) for each in found.limits],
        "failed": failed,
        "command": views.command_of(asked),
        "is_followed": is_followed and failed is None,
        "tail": path("topics", topic, "tail", **filters) if topic else "",
        "follow": path(*base, **query, live="" if is_followed else "1"),
        "other_order": path(*base, **{**query, "order": "" if asked.order else "oldest"}),
        "export": path("topics", asked.topic, "messages", "export", **query) if asked.topic else "",
    }
    title = f"Messages of {visible(topic)}" if topic else "Messages"
    return Page("messages.html", title, values, "messages", status, is_live=False)


async def found_messages(console: Console, asked: MessageQuery, limits: SearchBounds) -> Found:
    """Return what a URL asks for; few searches go on at once. Raises: ClientError."""
    try:
        async with asyncio.timeout(limits.seconds):
            await console.searching.acquire()
    except TimeoutError:
        cause = f"{SEARCHES_MAX} searches are under way at this console"
        raise ClientError(cause, "Try again", passes=True) from None
    try:
        return await _search(console, asked, limits)
    finally:
        console.searching.release()


async def _search(console: Console, asked: MessageQuery, limits: SearchBounds) -> Found:
    admin = console.admin
    if not (asked.id or asked.key or asked.is_place):
        return await search.by_time(admin, views.wanted_of(asked, console.reader.now_ms), limits)
    async with within(limits.seconds, LATE, SEE_BROKERS):
        if not asked.topic:
            name = asked.id or asked.key
            return await search.anywhere(admin, name, _topics(console), limits)
        if asked.id:
            return Found(await search.by_id(admin, asked.id, asked.topic))
        if asked.key:
            return await search.by_key(admin, asked.topic, asked.key, limits)
        queue, offset = views.place_of(asked)
        place = asked.topic, asked.broker, queue, offset
        return Found(await search.at_offset(admin, *place))


def _topics(console: Console) -> list[str]:
    """Return the topics of users, those that got messages last first."""
    shown, ends = console.reader.shown, console.reader.known_ends
    names = {x for broker in shown.brokers for x in broker.topics if not kind_of(x, shown)}
    return sorted(names, key=lambda x: (-ends[x].last_stored_ms if x in ends else 0, x))


def _status_of(error: ClientError) -> int:
    if isinstance(error, InvalidArgument):
        return 422
    return 502 if error.passes else 404


async def export(console: Console, request: Request) -> Response:
    """Send the messages that a URL asks for, one JSON object a line."""
    topic = request.path_params["topic"]
    asked = views.asked_of(request.query_params, topic)
    try:
        found = await found_messages(console, asked, EXPORT_LIMITS)
    except ClientError as error:
        raise HTTPException(_status_of(error), f"{error.cause}. {error.remedy}") from None

    async def lines() -> AsyncIterator[str]:
        for each in found.messages:
            yield json.dumps(views.line_of(each)) + "\n"
            await asyncio.sleep(0)

    headers = {"content-disposition": 'attachment; filename="messages.jsonl"'}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=headers)


async def tail(console: Console, request: Request) -> Response:
    """Send rows of messages as they are stored; viewers of the same filter share the pulls."""
    asked = views.asked_of(request.query_params, request.path_params["topic"])
    try:
        make_filter(asked.tag, asked.sql)
    except ClientError as error:
        raise HTTPException(422, f"{error.cause}. {error.remedy}") from None
    release = hold(console.followers, request)
    news = _tail_news(console, request, asked)
    return HeldResponse(news, release, media_type="text/event-stream")


async def _tail_news(console: Console, request: Request, asked: MessageQuery) -> AsyncIterator[str]:
    reader, sessions = console.reader, request.state.sessions
    accepts = make_filter("*", "", asked.text)
    template = console.templates.get_template("message_rows.html")
    said, quiet = "", 0

    def is_open() -> bool:
        return sessions.account_of(request, is_use=False) is not None

    try:
        async with console.tails.watch(TailOf(asked.topic, asked.tag or "*", asked.sql)) as viewer:
            yield "event: began\ndata: \n\n"
            while not reader.has_ended and is_open():
                reader.on_viewer()
                came = await viewer.next(TAIL_WAIT_SECONDS)
                if rows := views.rows_of(x for x in reversed(came) if accepts(x)):
                    text = template.render(rows=rows, now_ms=reader.now_ms, is_in_topic=True)
                    yield f"event: rows\ndata: {json.dumps(text)}\n\n"
                dropped = viewer.dropped
                now_said = viewer.said
                if dropped:
                    more = f"{dropped:,} messages came too fast to be shown"
                    now_said = f"{now_said}; {more}" if now_said else more
                if now_said != said:
                    said = now_said
                    yield f"event: said\ndata: {json.dumps(visible(said))}\n\n"
                quiet = 0 if came else quiet + 1
                if quiet >= TAIL_QUIET_WAITS:
                    quiet = 0
                    yield ":\n\n"
                await asyncio.sleep(TAIL_PAUSE_SECONDS if came else 0)
    except ClientError as error:
        yield f"event: said\ndata: {json.dumps(visible(f'{error.cause}. {error.remedy}'))}\n\n"


async def life(console: Console, request: Request) -> Page:
    """Show the life of one message, its body and properties."""
    message_id, query = request.path_params["id"], request.query_params
    topic = query.get("topic", "").strip()
    message, same = await _one(console, message_id, topic)
    lived = await life_of(console.admin, message)
    events = message_life.events_of(lived)
    place, id_text = message.offset_message_id, visible(message.message_id)
    full_topic = visible(message.full_topic)
    origin = message_life.origin_of(lived)
    body = message_body.body_of(message, query.get("body", ""))
    values: dict[str, Any] = {
        "row": views.row_of(message),
        "message_topic": full_topic,
        "broker": visible(message.broker),
        "flags": message.record.sys_flag,
        "events": events,
        "line": message_life.line_of(events),
        "missing": [visible(each) for each in lived.missing],
        "properties": [(visible(x), visible(y)) for x, y in sorted(message.properties.items())],
        "body": body,
        "tabs_of_body": [
            (name, title, path("messages", message_id, topic=topic, body=name) + "#body")
            for name, title in message_body.TABS
        ],
        "download": path("messages", place, "body", topic=full_topic),
        "download_stored": path("messages", place, "body", topic=full_topic, stored="1"),
        "same": views.rows_of(same),
        "copies": views.rows_of(lived.copies),
        "origin": origin,
        "origin_link": path("messages", id_text, topic=origin) if origin else "",
        "clients": _clients(console, message),
        "trace": path("trace", id=id_text),
        "command": views.command_of(MessageQuery(id=place)),
    }
    return Page("message.html", f"Message {id_text}", values, "messages", is_live=False)


def _clients(console: Console, message: ReceivedMessage) -> list[tuple[str, str]]:
    """Return group and id of the clients that may be asked to consume a message directly."""
    found = [
        (name, each.client_id)
        for name, group in sorted(console.reader.shown.groups.items())
        if group.clients is not None and message.full_topic in group.clients.subscription_table
        for each in sorted(group.clients.connection_set, key=lambda x: x.client_id)
    ]
    return found[:CLIENTS_SHOWN_MAX]


async def _one(
    console: Console, message_id: str, topic: str
) -> tuple[ReceivedMessage, list[ReceivedMessage]]:
    """Return a message, and others with the same id. Raises: HTTPException, ClientError."""
    try:
        async with within(ID_SECONDS_MAX, LATE, SEE_BROKERS):
            [first, *others] = await search.by_id(console.admin, message_id, topic)
    except ClientError as error:
        if error.passes:
            raise
        raise HTTPException(404, visible(f"{error.cause}. {error.remedy}")) from None
    return first, others


async def body(console: Console, request: Request) -> Response:
    """Send a body as it is, as a file: a browser shows nothing of it."""
    topic = request.query_params.get("topic", "").strip()
    message, _ = await _one(console, request.path_params["id"], topic)
    is_stored = request.query_params.get("stored") == "1"
    pieces = iter([bytes(message.record.body)]) if is_stored else pieces_of(message)
    first = await asyncio.to_thread(next, pieces, b"")  # what cannot be read is a page of an error

    async def content() -> AsyncIterator[bytes]:
        piece = first
        while piece:
            yield piece
            piece = await asyncio.to_thread(next, pieces, b"")

    name = f"{message.offset_message_id}.bin"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    media_type = "application/octet-stream"
    return StreamingResponse(content(), media_type=media_type, headers=headers)


PAGES: Final = (
    PageRoute("/messages", find),
    PageRoute("/messages/{id:name}/body", body),
    PageRoute("/messages/{id:name}", life),
    PageRoute("/topics/{topic:name}/messages/export", export),
    PageRoute("/topics/{topic:name}/messages", of_topic),
    PageRoute("/topics/{topic:name}/tail", tail),
)
