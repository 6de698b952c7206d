"""Logging in and out."""

import asyncio
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from wakelog.console.accounts import ConsoleRole, Login
from wakelog.console.audit_log import Entry
from wakelog.console.defence.attempts import Attempt
from wakelog.console.defence.places import host_of
from wakelog.console.pages.sessions import Sessions, set_cookie
from wakelog.console.pages.site import Console, Page, PageRoute
from wakelog.console.quantities import span_text

NAME_LENGTH_MAX: Final = 256
BUSY: Final = "Too many log in at this moment. Try again"


async def login(console: Console, request: Request) -> Page | Response:
    """Ask for name and password, and begin a session."""
    to = _own_path(request.query_params.get("to", "/"))
    if request.method == "GET":
        return _page(to)
    form = await request.form()
    name, password = (str(form.get(field, ""))[:NAME_LENGTH_MAX] for field in ("name", "password"))
    address = request.client.host if request.client else ""
    now_ms = console.reader.now_ms
    sessions: Sessions = request.state.sessions
    browser = sessions.known_browser(request, name)
    place = browser or host_of(address)
    attempt = Attempt(name, place, name in console.accounts, bool(browser))
    if wait_ms := console.attempts.begin(attempt, now_ms):
        wait = f"Too many attempts for this account. Wait {span_text(wait_ms)}"
        return _page(to, wait, 429)
    if console.logins.take(place=place):
        console.attempts.forget(attempt, now_ms)
        return _page(to, BUSY, 503)
    try:
        account = await _compared(console, name, password)
    finally:
        console.logins.free(place=place)
    entry = Entry(now_ms, name, address, "log in", "done")
    if account is None:
        console.audit.add_refused(entry._replace(result="failed: another name or password"))
        return _page(to, "There is no such account, or its password is another", 403)
    console.audit.add(entry)
    console.attempts.forget(attempt, now_ms)
    sessions.end(request)
    response = RedirectResponse(to, 303)
    set_cookie(request, response, sessions.begin(account))
    sessions.remember_browser(request, response, name)
    return response


async def _compared(console: Console, name: str, password: str) -> Login | None:
    """Return the account that a name and a password prove, in a thread of their own.

    Threads of other work would keep the memory of a comparison each.
    """
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(console.comparing, console.accounts.log_in, name, password)


async def logout(console: Console, request: Request) -> Response:
    """End the session."""
    if request.method == "POST":
        sessions: Sessions = request.state.sessions
        sessions.end(request)
    return RedirectResponse("/login", 303)


def _page(to: str, wrong: str = "", status: int = 200) -> Page:
    return Page("login.html", "Log in", {"to": to, "wrong": wrong}, status=status, is_live=False)


def _own_path(text: str) -> str:
    """Return where to go after a login: a path of this console, whatever the URL says."""
    try:
        found = urlsplit(text)
    except ValueError:
        return "/"
    is_own = not found.scheme and not found.netloc and text.startswith("/")
    return text if is_own and not text.startswith(("//", "/\\")) and text.isprintable() else "/"


PAGES: Final = (
    PageRoute("/login", login, ConsoleRole.NONE, posts=True),
    PageRoute("/logout", logout, ConsoleRole.NONE, posts=True),
)
