"""What guards the pages: hosts, headers, sessions, the token of forms, and roles.

    host       a name that this console is not called by is refused: DNS rebinding
    headers    on every answer, also on those of errors
    session    a cookie without meaning; what it stands for is kept here
    token      in every form; made from the session, so another site cannot know it

Invariants: no GET changes anything. What is refused says so.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wakelog.console.accounts import EVERYONE, Account, Accounts, Role

COOKIE: Final = "wakelog_session"
TOKEN_FIELD: Final = "token"
SESSIONS_MAX: Final = 1_024
SESSIONS_OF_ACCOUNT_MAX: Final = 64
"""Of one account; with more its own oldest ends, and no other's."""
SESSION_MS_MAX: Final = 12 * 3_600_000
FORM_BYTES_MAX: Final = 4 << 20
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Session(NamedTuple):
    """Who is logged in, and until when."""

    account: Account
    ends_ms: int


class Sessions:
    """The sessions of those who logged in. The oldest ends when there are too many."""

    def __init__(self, accounts: Accounts, now_ms: Callable[[], int]) -> None:
        """Nobody is logged in yet."""
        self._accounts = accounts
        self._now_ms = now_ms
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._key = secrets.token_bytes(32)

    def account_of(self, request: Request) -> Account | None:
        """Return whose request it is, None if one has to log in first."""
        if not self._accounts.are_asked_for:
            return EVERYONE
        session = self._sessions.get(request.cookies.get(COOKIE, ""))
        return session.account if session and session.ends_ms > self._now_ms() else None

    def begin(self, account: Account) -> str:
        """Return the cookie of a new session."""
        cookie = new_cookie()
        own = [x for x, y in self._sessions.items() if y.account.name == account.name]
        for oldest in own[: len(own) + 1 - SESSIONS_OF_ACCOUNT_MAX]:
            del self._sessions[oldest]
        while len(self._sessions) >= SESSIONS_MAX:
            self._sessions.popitem(last=False)
        self._sessions[cookie] = Session(account, self._now_ms() + SESSION_MS_MAX)
        return cookie

    def end(self, request: Request) -> None:
        """End the session of a request."""
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)

    def token(self, cookie: str) -> str:
        """Return what the forms of a cookie's pages carry."""
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def is_own_form(self, request: Request, token: str) -> bool:
        """Return whether a form comes from a page of this console."""
        cookie = request.cookies.get(COOKIE, "")
        return bool(cookie) and hmac.compare_digest(
            self.token(cookie).encode(), token.encode(errors="replace")
        )


def new_cookie() -> str:
    """Return a cookie that nobody can guess."""
    return secrets.token_urlsafe(32)


def set_cookie(response: Response, cookie: str, *, is_secure: bool) -> None:
    """Let a browser keep a session's cookie, out of the reach of scripts and other sites."""
    response.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=is_secure)


def may(account: Account, role: Role) -> bool:
    """Return whether an account may do what needs a role."""
    return account.role >= role


class Guard:
    """The middleware of hosts and headers."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        """hosts: names by which the console may be called, without ports."""
        self._app = app
        self._hosts = {each.lower() for each in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse other hosts and large forms, and add the headers to every answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if "cache-control" not in headers:
                    headers["cache-control"] = "no-store"
            await send(message)

        read_bytes = 0

        async def receive_bounded() -> Message:
            nonlocal read_bytes
            message = await receive()
            read_bytes += len(message.get("body", b""))
            if read_bytes > FORM_BYTES_MAX:
                raise HTTPException(413, f"A form has {FORM_BYTES_MAX:,} bytes at most")
            return message

        if _host_name(Headers(scope=scope).get("host", "")) not in self._hosts:
            text = "This console is not known by that name. Start it with --host NAME.\n"
            await PlainTextResponse(text, 421)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive_bounded, send_with_headers)


def _host_name(text: str) -> str:
    """Return the name of a Host header, without its port."""
    name, separator, port = text.rpartition(":")
    return (name if separator and port.isdigit() else text).lower()
