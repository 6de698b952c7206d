"""HTTP connections with limits: of time for each part of a request, and of places for each host.

uvicorn limits how long an idle connection stays open after an answer, and nothing before it. A
client that sends a header byte by byte, or never, or reads no answer, is closed here. A browser
feels none of it.

    handshake  HANDSHAKE_SECONDS_MAX until TLS is there
    header     HEADER_SECONDS_MAX from the begin of a connection, or of a request, to its blank line
    form       FORM_SECONDS_MAX from there to the end of the form
    idle       IDLE_SECONDS_MAX after an answer
    answer     UNREAD_SECONDS_MAX while the other end takes nothing of it, or does not let it end

Invariants: a connection has one timer at most. A host that holds its places gets no further one;
proxies that are trusted have those of all.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from wakelog.console.defence.places import Places, host_of
from wakelog.console.defence.proxies import Proxies

CONNECTIONS_MAX: Final = 1_024
CONNECTIONS_OF_HOST_MAX: Final = 256
HANDSHAKE_SECONDS_MAX: Final = 10.0
HEADER_SECONDS_MAX: Final = 15.0
FORM_SECONDS_MAX: Final = 120.0
IDLE_SECONDS_MAX: Final = 15
UNREAD_SECONDS_MAX: Final = 60.0

PROXY: Final = "proxy"


class LimitedConnection(H11Protocol):
    """See the module."""

    def __init__(self, places: Places, proxies: Proxies, **uvicorns: Any) -> None:
        """Wait for a connection. uvicorns: what it gives each of its protocols."""
        super().__init__(**uvicorns)
        self._places, self._proxies = places, proxies
        self._host = ""
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._waits_for = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, or end."""
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        host = PROXY if address in self._proxies else host_of(address)
        kind = "proxy" if host == PROXY else "host"
        if self._places.take(**{kind: host}):
            transport.abort()
            return
        self._host = host
        _limit_unread(transport)
        self._wait("header", HEADER_SECONDS_MAX)

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place."""
        for timer in (self._timer, self._unread):
            if timer is not None:
                timer.cancel()
        if self._host:
            kind = "proxy" if self._host == PROXY else "host"
            self._places.free(**{kind: self._host})
            self._host = ""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._host:  # else it is being aborted
            super().data_received(data)
            self._wait_for_next_part()

    def on_response_complete(self) -> None:
        """Wait for another request; uvicorn limits how long, until its first byte comes."""
        super().on_response_complete()
        self._wait_for_next_part()

    def pause_writing(self) -> None:
        """Limit how long nothing of an answer is taken."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(UNREAD_SECONDS_MAX, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: some of it was taken."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, also one whose other end takes nothing of the last answer."""
        super().timeout_keep_alive_handler()
        self._wait_for_next_part()

    def _wait_for_next_part(self) -> None:
        """Limit what comes next: a header, a form, or neither while an answer is made."""
        state = self.conn.their_state
        if self.transport.is_closing():
            self._wait("end", UNREAD_SECONDS_MAX)
        elif state is h11.SEND_BODY:
            self._wait("form", FORM_SECONDS_MAX)
        elif state is h11.IDLE and self.conn.trailing_data[0]:
            self._wait("header", HEADER_SECONDS_MAX)
        else:
            self._wait("", 0)

    def _wait(self, part: str, seconds_max: float) -> None:
        """Limit the time of a part, from its begin: further bytes of it win none."""
        if part == self._waits_for:
            return
        self._waits_for = part
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds_max, self.transport.abort) if part else None


def _limit_unread(transport: asyncio.Transport) -> None:
    """Let the kernel end a connection whose other end takes nothing, however little it is."""
    sock = transport.get_extra_info("socket")
    if sock is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        with contextlib.suppress(OSError):
            limit_ms = round(UNREAD_SECONDS_MAX * 1000)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)


def connections_of(places: Places, proxies: Proxies) -> Callable[..., LimitedConnection]:
    """Return what makes a connection's protocol, for uvicorn's arguments."""

    def make(**uvicorns: Any) -> LimitedConnection:
        return LimitedConnection(places, proxies, **uvicorns)

    return make


def make_places() -> Places:
    """Return the places of all connections."""
    return Places(CONNECTIONS_MAX, host=CONNECTIONS_OF_HOST_MAX, proxy=CONNECTIONS_MAX)
