"""Connections of clients that are slow, silent or many; a browser meets no limit."""

import asyncio
import http.client
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.console.site import Browser, console_of
from wakelog.console import serve
from wakelog.console.defence import connections
from wakelog.console.defence.connections import LimitedConnection, make_places
from wakelog.console.defence.places import Places
from wakelog.console.defence.proxies import Proxies
from wakelog.console.serve import Listen
from wakelog.testing.embedded_broker import EmbeddedBroker

SOON_SECONDS = 0.3
FORM = (
    b"POST /login HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000\r\n"
    b"content-type: application/x-www-form-urlencoded\r\n\r\n"
)


@contextmanager
def address_of(broker: EmbeddedBroker, listen: Listen | None = None) -> Iterator[tuple[str, int]]:
    with console_of(broker.name_server, listen=listen) as console:
        host, _, port = Browser(console.url).address.rpartition(":")
        yield host, int(port)


def closed_after(address: tuple[str, int], data: bytes, then: bytes = b"") -> float:
    """Return after how many seconds a connection ends that sends data, and then goes on slowly."""
    began_seconds = time.monotonic()
    with socket.create_connection(address, timeout=30) as peer:
        peer.sendall(data)
        while time.monotonic() - began_seconds < 20:
            if select.select([peer], [], [], 0.05)[0]:
                try:
                    if not peer.recv(65_536):
                        break
                except ConnectionError:
                    break
            elif then:
                try:
                    peer.sendall(then)
                except ConnectionError:
                    break
        else:
            pytest.fail("it is open after 20 s")
    return time.monotonic() - began_seconds


@pytest.mark.parametrize(
    ("data", "then"),
    [
        (b"", b""),
        (b"G", b""),
        (b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ", b"x"),
        (b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\nGET / HTTP/1.1\r\nx: ", b"x"),
        (FORM, b""),
        (FORM, b"x"),
    ],
)
def test_a_request_that_comes_slowly_ends(
    console_broker: EmbeddedBroker, data: bytes, then: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = "FORM_SECONDS_MAX" if data is FORM else "HEADER_SECONDS_MAX"
    monkeypatch.setattr(connections, "HEADER_SECONDS_MAX", 600)
    monkeypatch.setattr(connections, limit, SOON_SECONDS)
    with address_of(console_broker) as address:
        assert closed_after(address, data, then) >= SOON_SECONDS


def test_an_idle_connection_ends_and_one_that_is_used_does_not(
    console_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "IDLE_SECONDS_MAX", 1)
    with address_of(console_broker) as address:
        assert closed_after(address, b"GET /login HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n") >= 1
        connection = http.client.HTTPConnection(*address, timeout=30)
        connection.connect()
        kept = connection.sock
        for path in ("/", "/topics", "/static/console.css", "/no/such"):
            connection.request("GET", path)
            connection.getresponse().read()
            assert connection.sock is kept
        connection.close()


def test_a_page_that_is_kept_new_outlives_every_limit(
    console_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HEADER_SECONDS_MAX", "FORM_SECONDS_MAX", "UNREAD_SECONDS_MAX"):
        monkeypatch.setattr(connections, name, 0.05)
    monkeypatch.setattr(connections, "_limit_unread", lambda _: None)
    with console_of(console_broker.name_server) as console:
        connection = http.client.HTTPConnection(Browser(console.url).address, timeout=30)
        connection.request("GET", "/live?of=/brokers")
        response = connection.getresponse()
        for _ in range(3):
            console.read()
            assert response.readline()
        connection.close()


def is_answered(address: tuple[str, int]) -> bool:
    connection = http.client.HTTPConnection(*address, timeout=30)
    try:
        connection.request("GET", "/login")
        return connection.getresponse().status == 200
    except (ConnectionError, http.client.BadStatusLine):
        return False
    finally:
        connection.close()


def test_one_host_has_a_bounded_number_of_connections(
    console_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_OF_HOST_MAX", 3)
    with address_of(console_broker) as address:
        with ExitStack() as stack:
            for _ in range(3):
                peer = socket.create_connection(address, timeout=30)
                stack.callback(peer.close)
            assert not is_answered(address)
        assert any(is_answered(address) for _ in range(100))  # the places are free soon


def test_a_trusted_proxy_has_the_places_of_all(
    console_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_OF_HOST_MAX", 1)
    with (
        address_of(console_broker, Listen(proxies=("127.0.0.1",))) as address,
        socket.create_connection(address, timeout=30),
    ):
        assert is_answered(address)


class Transport(asyncio.Transport):
    """A connection that notes how it ends."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.7", 9), "sockname": ("10.0.0.1", 80)})
        self.ended = asyncio.Event()
        self.is_closed = False

    def abort(self) -> None:
        self.ended.set()

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: Any) -> None: ...


def connected(places: Places, transport: Transport) -> LimitedConnection:
    config = uvicorn.Config(lambda *_: None, lifespan="off", ws="none", log_config=None)
    config.load()
    protocol = LimitedConnection(
        places, Proxies(), config=config, server_state=ServerState(), app_state={}
    )
    protocol.connection_made(transport)
    return protocol


@pytest.mark.parametrize("way", ["paused", "closed"])
def test_an_answer_that_is_not_taken_ends(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS_MAX", 0.01)

    async def main() -> None:
        places, transport = make_places(), Transport()
        protocol = connected(places, transport)
        if way == "paused":
            protocol.pause_writing()
        else:
            protocol.timeout_keep_alive_handler()
            assert transport.is_closed
        async with asyncio.timeout(10):
            await transport.ended.wait()
        protocol.connection_lost(None)
        assert places.count == 0

    asyncio.run(main())


def test_an_answer_that_is_taken_slowly_goes_on() -> None:
    async def main() -> None:
        protocol = connected(make_places(), Transport())
        protocol.pause_writing()
        timer = protocol._unread
        assert timer is not None
        protocol.resume_writing()
        assert timer.cancelled()
        protocol.connection_lost(None)

    asyncio.run(main())


def test_a_connection_that_gets_no_place_reads_nothing_and_frees_none() -> None:
    async def main() -> None:
        places, transport = Places(0, host=0, proxy=0), Transport()
        protocol = connected(places, transport)
        assert transport.ended.is_set()
        protocol.data_received(b"GET / HTTP/1.1\r\n\r\n")
        assert protocol.scope is None
        protocol.connection_lost(None)
        assert places.count == 0

    asyncio.run(main())
