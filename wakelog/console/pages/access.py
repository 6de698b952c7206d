"""Logging in and out."""

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from wakelog.console.accounts import Role
from wakelog.console.audit_log import Entry
from wakelog.console.pages.guard import Sessions, set_cookie
from wakelog.console.pages.site import Console, Page, PageRoute

NAME_LENGTH_MAX: Final = 256


async def login(console: Console, request: Request) -> Page | Response:
    """Ask for name and password, and begin a session."""
    to = _own_path(request.query_params.get("to", "/"))
    if request.method == "GET":
        return _page(to)
    form = await request.form()
    name, password = (str(form.get(field, ""))[:NAME_LENGTH_MAX] for field in ("name", "password"))
    address = request.client.host if request.client else ""
    accounts, now_ms = console.accounts, console.reader.now_ms
    if accounts.is_barred(address, now_ms):
        return _page(to, "Too many attempts from here. Wait a minute", 429)
    account = accounts.log_in(name, password)
    result = "done" if account else "failed: another name or password"
    console.audit.add(Entry(now_ms, name, address, "log in", result))
    if account is None:
        accounts.note_failure(address, now_ms)
        return _page(to, "There is no such account, or its password is another", 403)
    sessions: Sessions = request.state.sessions
    sessions.end(request)
    response = RedirectResponse(to, 303)
    set_cookie(response, sessions.begin(account), is_secure=request.url.scheme == "https")
    return response


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
    PageRoute("/login", login, Role.NONE, posts=True),
    PageRoute("/logout", logout, Role.NONE, posts=True),
)
