"""What guards the pages: hosts, headers, proxies, and the bounds of forms.

    host       a name that this console is not called by is refused: DNS rebinding
    headers    on every answer, also on those of errors
    proxy      one that is trusted says where a request came from; no other does
    form       of so many bytes at most, and from a page of this console

Invariants: no GET changes anything. What is refused says so.
"""

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wakelog.console.accounts import ConsoleRole, Login
from wakelog.console.defence.proxies import Proxies

FORM_BYTES_MAX: Final = 4 << 20
STRANGERS_FORM_BYTES_MAX: Final = 16 << 10
"""Of those who have not logged in: a name and a password."""
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
BYTES_KEY: Final = "wakelog.form_bytes_max"
"""In a scope: what its form may have."""

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


def may(account: Login, role: ConsoleRole) -> bool:
    """Return whether an account may do what needs a role."""
    return account.role >= role


def bound_form(request: Request, bytes_max: int) -> None:
    """Let the form of a request, which is not read yet, have so many bytes at most."""
    request.scope[BYTES_KEY] = bytes_max


def is_foreign(request: Request) -> bool:
    """Return whether the page of another site made a request, as far as its browser says so.

    A Host without a port is that of a proxy, or of the default port: its name alone counts.
    """
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("origin")
    if origin is None:
        return False
    try:
        found = urlsplit(origin).netloc.lower()
    except ValueError:
        return True
    own = request.headers.get("host", "").lower()
    return not found or own not in (found, _host_name(found))


class Guard:
    """The middleware of hosts, headers and proxies."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: Iterable[str],
        proxies: Proxies | None = None,
        *,
        answers_proxies_alone: bool = False,
    ) -> None:
        """hosts: names by which the console may be called, without ports.

        answers_proxies_alone: other hosts reach its port without TLS, and get nothing.
        """
        self._app = app
        self._hosts = {each.lower() for each in hosts}
        self._proxies = proxies or Proxies()
        self._answers_proxies_alone = answers_proxies_alone

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

        address, port = scope.get("client") or ("", 0)
        if refusal := self._refusal(address, Headers(scope=scope)):
            await refusal(scope, receive, send_with_headers)
            return
        peer = self._proxies.peer(address, scope["scheme"], scope["headers"])
        client = peer.address, port if peer.address == address else 0
        inner = {**scope, "client": client, "scheme": peer.scheme, BYTES_KEY: FORM_BYTES_MAX}
        await self._app(inner, _bounded(inner, receive), send_with_headers)

    def _refusal(self, address: str, headers: Headers) -> PlainTextResponse | None:
        is_near = address in self._proxies or _is_loopback(address)
        if self._answers_proxies_alone and not is_near:
            return PlainTextResponse("This console answers its proxy alone.\n", 403)
        if _host_name(headers.get("host", "")) not in self._hosts:
            text = "This console is not known by that name. Start it with --host NAME.\n"
            return PlainTextResponse(text, 421)
        return None


def _bounded(scope: Scope, receive: Receive) -> Receive:
    """Return what reads a form within its bound. Raises: HTTPException beyond it."""
    read_bytes = 0

    async def receive_bounded() -> Message:
        nonlocal read_bytes
        message = await receive()
        read_bytes += len(message.get("body", b""))
        if read_bytes > scope[BYTES_KEY]:
            raise HTTPException(413, f"A form has {scope[BYTES_KEY]:,} bytes at most")
        return message

    return receive_bounded


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _host_name(text: str) -> str:
    """Return the name of a Host header, without its port."""
    name, separator, port = text.rpartition(":")
    return (name if separator and port.isdigit() else text).lower()
