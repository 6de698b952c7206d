"""Sessions: a cookie without meaning, and what it stands for, which is kept here.

    cookie   its name has the port: consoles of one host do not end each other's sessions
    token    in every form; made from the session, so another site cannot know it
    browser  a second cookie, of a browser that has logged in: the guesses of others do not bar it

Invariants: a session ends by time, without use, and with its account. No cookie outlives the
console's process.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from wakelog.console.accounts import EVERYONE, Accounts, Login

COOKIE: Final = "wakelog_session"
BROWSER_COOKIE: Final = "wakelog_browser"
BROWSER_SECONDS_MAX: Final = 30 * 24 * 3_600
SESSIONS_MAX: Final = 1_024
SESSIONS_OF_ACCOUNT_MAX: Final = 64
"""Of one account; with more its own oldest ends, and no other's."""
SESSION_MS_MAX: Final = 12 * 3_600_000
IDLE_MS_MAX: Final = 3_600_000
"""Without a page that was asked for; those that are kept new do not count."""


class LoginSession(NamedTuple):
    """Who is logged in, until when, and when a page was asked for at last."""

    account: Login
    ends_ms: int
    used_ms: int


class Sessions:
    """The sessions of those who logged in. The oldest ends when there are too many."""

    def __init__(self, accounts: Accounts, now_ms: Callable[[], int]) -> None:
        """Nobody is logged in yet."""
        self._accounts = accounts
        self._now_ms = now_ms
        self._sessions: OrderedDict[str, LoginSession] = OrderedDict()
        self._key = secrets.token_bytes(32)
        self._browser_key = secrets.token_bytes(32)

    def account_of(self, request: Request, *, is_use: bool = True) -> Login | None:
        """Return whose request it is, as the account is now; None if one has to log in first.

        is_use: a person asked, so the session goes on.
        """
        if not self._accounts.are_asked_for:
            return EVERYONE
        cookie, now_ms = cookie_of(request), self._now_ms()
        session = self._sessions.get(cookie)
        if session is None:
            return None
        account = self._accounts.current(session.account)
        is_idle = now_ms - session.used_ms >= IDLE_MS_MAX
        if account is None or is_idle or now_ms >= session.ends_ms:
            del self._sessions[cookie]
            return None
        if is_use:
            self._sessions[cookie] = session._replace(used_ms=now_ms)
        return account

    def begin(self, account: Login) -> str:
        """Return the cookie of a new session."""
        cookie, now_ms = new_cookie(), self._now_ms()
        own = [x for x, y in self._sessions.items() if y.account.name == account.name]
        for oldest in own[: len(own) + 1 - SESSIONS_OF_ACCOUNT_MAX]:
            del self._sessions[oldest]
        while len(self._sessions) >= SESSIONS_MAX:
            self._sessions.popitem(last=False)
        self._sessions[cookie] = LoginSession(account, now_ms + SESSION_MS_MAX, now_ms)
        return cookie

    def end(self, request: Request) -> None:
        """End the session of a request."""
        self._sessions.pop(cookie_of(request), None)

    def token(self, cookie: str) -> str:
        """Return what the forms of a cookie's pages carry."""
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def is_own_form(self, request: Request, token: str) -> bool:
        """Return whether a form comes from a page of this console."""
        cookie = cookie_of(request)
        return bool(cookie) and hmac.compare_digest(
            self.token(cookie).encode(), token.encode(errors="replace")
        )

    def known_browser(self, request: Request, name: str) -> str:
        """Return which browser asks, if it has logged in to the account of this name; else ""."""
        browser, _, mark = request.cookies.get(_with_port(BROWSER_COOKIE, request), "").partition(
            "."
        )
        is_known = hmac.compare_digest(
            self._mark(browser, name).encode(), mark.encode(errors="replace")
        )
        return browser if browser and is_known else ""

    def remember_browser(self, request: Request, response: Response, name: str) -> None:
        """Let a browser be known that has logged in to the account of this name."""
        browser = new_cookie()
        value = f"{browser}.{self._mark(browser, name)}"
        set_cookie(request, response, value, BROWSER_COOKIE, seconds_max=BROWSER_SECONDS_MAX)

    def _mark(self, browser: str, name: str) -> str:
        text = f"{browser}\0{name}".encode(errors="replace")
        return hmac.new(self._browser_key, text, hashlib.sha256).hexdigest()


def new_cookie() -> str:
    """Return a cookie that nobody can guess."""
    return secrets.token_urlsafe(32)


def cookie_of(request: Request) -> str:
    """Return the cookie of a request's session, "" without one."""
    return request.cookies.get(_with_port(COOKIE, request), "")


def set_cookie(
    request: Request,
    response: Response,
    cookie: str,
    name: str = COOKIE,
    seconds_max: int | None = None,
) -> None:
    """Let a browser keep a cookie, out of the reach of scripts and other sites.

    seconds_max: None for as long as the browser runs.
    """
    response.set_cookie(
        _with_port(name, request),
        cookie,
        max_age=seconds_max,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def _with_port(name: str, request: Request) -> str:
    """Return the name of a cookie: a browser sends one to every port of a host."""
    _, port = request.scope.get("server") or ("", None)
    return f"{name}_{port}" if port else name
