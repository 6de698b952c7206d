"""The page of a search over the cluster; one exact hit leads to its page at once."""

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from wakelog.client.errors import ClientError
from wakelog.client.message_search import Found, SearchBounds
from wakelog.console.pages.messages import found_messages
from wakelog.console.pages.site import Console, Page, PageRoute, path
from wakelog.console.views import search as views
from wakelog.console.views.messages import MessageQuery, asked_of, rows_of, visible

MESSAGES_MAX: Final = 50


async def search(console: Console, request: Request) -> Page | Response:
    """Show what a word is found in: names, then keys and ids of messages."""
    word = request.query_params.get("q", "")
    accounts = await console.reader.accounts.get()
    found = views.search(word, console.reader.shown, accounts.value)
    if (one := views.exact(word, found)) is not None:
        return RedirectResponse(path(*one.parts, q=one.filter), 303)
    messages, failed = Found(), None
    key = asked_of({"key": word}).key
    if key:
        try:
            messages = await found_messages(
                console, MessageQuery(key=key), SearchBounds(MESSAGES_MAX)
            )
        except ClientError as error:
            failed = error
    if len(messages.messages) == 1 and not found:
        return RedirectResponse(path("messages", messages.messages[0].offset_message_id), 303)
    values = {
        "word": word.strip(),
        "found": found,
        "found_max": views.FOUND_MAX,
        "messages": rows_of(messages.messages),
        "limits": [visible(each) for each in messages.limits],
        "failed": failed,
    }
    return Page("search.html", "Search", values, is_live=False)


PAGES: Final = (PageRoute("/search", search),)
