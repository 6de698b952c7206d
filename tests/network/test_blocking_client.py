"""A client whose calling thread waits, and a server that does what each test wants."""

import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from wakelog.network import blocking_client
from wakelog.network.blocking_client import BlockingClient
from wakelog.network.errors import (
    CallTimeout,
    ClientClosed,
    ConnectFailed,
    SendFailed,
    TlsFailed,
)
from wakelog.network.tls import Tls, make_context
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.frame import FrameDecoder, encode_frame

FILES = Path(__file__).parent / "certificates"
TIMEOUT_MS = 5_000

Serve = Callable[[socket.socket], None]
"""Serves one connection, in a thread of its own; it is closed then."""


@contextmanager
def serving(*serve: Serve, tls: bool = False) -> Iterator[str]:
    """Yield an address, where one connection after the other is served as given.

    At the end of the block all of them must have been made.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(TIMEOUT_MS / 1000)
    failures: list[Exception] = []

    def accept() -> None:
        for each in serve:
            try:
                connection, _ = listening.accept()
                connection.settimeout(TIMEOUT_MS / 1000)
                with make_server(connection) if tls else connection as made:
                    each(made)
            except Exception as error:
                failures.append(error)

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()
        assert not failures
    finally:
        listening.close()
        thread.join()


def make_server(connection: socket.socket) -> socket.socket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(FILES / "server.pem"), str(FILES / "server.key"))
    return context.wrap_socket(connection, server_side=True)


def requests(connection: socket.socket) -> Iterator[RemotingCommand]:
    decoder = FrameDecoder()
    while data := connection.recv(65_536):
        yield from decoder.feed(data)


def echo(connection: socket.socket) -> None:
    """Answer until the other end closes."""
    for request in requests(connection):
        connection.sendall(encode_frame(answer(request, 0, body=request.body)))


def echo_once(connection: socket.socket) -> None:
    request = next(requests(connection))
    connection.sendall(encode_frame(answer(request, 0, body=request.body)))


def close_unanswered(connection: socket.socket) -> None:
    next(requests(connection))


def call(client: BlockingClient, address: str, body: bytes, timeout_ms: int = TIMEOUT_MS) -> bytes:
    return client.invoke(address, RemotingCommand(310, body=body), timeout_ms=timeout_ms).body


@pytest.fixture
def client() -> Iterator[BlockingClient]:
    made = BlockingClient()
    yield made
    made.close()


def test_responses_come_to_their_requests_over_one_connection(client: BlockingClient) -> None:
    with serving(echo) as address:
        bodies = [b"%d" % n * n * 1000 for n in range(100)]
        assert [call(client, address, body) for body in bodies] == bodies
        client.close()


def test_other_frames_of_the_server_are_dropped(client: BlockingClient) -> None:
    """Requests of the other end, and responses to requests that were never sent."""

    def serve(connection: socket.socket) -> None:
        for request in requests(connection):
            for other in (
                RemotingCommand(40, opaque=request.opaque, body=b"a request"),
                answer(RemotingCommand(310, opaque=request.opaque + 1), 0, body=b"another's"),
                answer(request, 0, body=b"ours"),
            ):
                connection.sendall(encode_frame(other))

    with serving(serve) as address:
        assert call(client, address, b"") == b"ours"
        client.close()


def test_a_response_in_pieces_is_waited_for(client: BlockingClient) -> None:
    def serve(connection: socket.socket) -> None:
        frame = encode_frame(answer(next(requests(connection)), 0, body=b"whole"))
        for place in range(len(frame)):
            connection.sendall(frame[place : place + 1])

    with serving(serve) as address:
        assert call(client, address, b"") == b"whole"


def test_a_connection_that_was_closed_between_is_made_again(client: BlockingClient) -> None:
    with serving(echo_once, echo_once) as address:
        assert call(client, address, b"first") == b"first"
        ended = client._connections[address]
        assert ended._ended.poll(TIMEOUT_MS), "the server closes"
        assert call(client, address, b"second") == b"second"


def test_a_connection_that_is_lost_meanwhile_fails_the_request_alone(
    client: BlockingClient,
) -> None:
    with serving(close_unanswered, echo_once) as address:
        with pytest.raises(SendFailed, match="the connection was lost"):
            call(client, address, b"first")
        assert call(client, address, b"second") == b"second"


def test_a_late_response_is_not_taken_for_the_next_one(client: BlockingClient) -> None:
    is_over = threading.Event()

    def answer_late(connection: socket.socket) -> None:
        request = next(requests(connection))
        assert is_over.wait(TIMEOUT_MS / 1000)
        with suppress(OSError):  # the client has closed it
            while True:
                connection.sendall(encode_frame(answer(request, 0, body=b"late")))

    with serving(answer_late, echo_once) as address:
        with pytest.raises(CallTimeout, match="no answer within 20 ms"):
            call(client, address, b"first", timeout_ms=20)
        is_over.set()
        assert call(client, address, b"second") == b"second"


def test_a_server_that_sends_without_an_end_does_not_keep_the_caller(
    client: BlockingClient,
) -> None:
    def chatter(connection: socket.socket) -> None:
        frame = encode_frame(RemotingCommand(40, body=b"never what was asked for"))
        with suppress(OSError):  # the client has closed it
            while True:
                connection.sendall(frame)

    with serving(chatter) as address, pytest.raises(CallTimeout):
        call(client, address, b"", timeout_ms=50)


def test_one_time_limit_holds_for_all_steps(client: BlockingClient) -> None:
    """The server takes the request slowly, and then sends what nobody waits for."""
    is_over = threading.Event()

    def serve(connection: socket.socket) -> None:
        is_over.wait(0.6)
        left_bytes = 12 << 20
        while left_bytes > 0 and (data := connection.recv(1 << 20)):
            left_bytes -= len(data)
        is_over.wait(0.6)
        connection.sendall(encode_frame(RemotingCommand(40)))
        assert is_over.wait(TIMEOUT_MS / 1000)

    with serving(serve) as address:
        began_seconds = time.monotonic()
        with pytest.raises(CallTimeout, match="no answer within 1500 ms"):
            call(client, address, bytes(12 << 20), timeout_ms=1500)
        took_seconds = time.monotonic() - began_seconds
        is_over.set()
    assert 1.4 < took_seconds < 2.1


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_handshake_without_an_end_ends_in_time(tls: bool) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening:
        held = []
        if not tls:  # the kernel takes two more than it was told, and drops the others
            for _ in range(2):
                held.append(socket.socket())
                held[-1].setblocking(False)
                held[-1].connect_ex(listening.getsockname())
        client = BlockingClient(make_context(Tls(checks_server=False)) if tls else None)
        began_seconds = time.monotonic()
        with pytest.raises(ConnectFailed, match=r"no connection within 0\.[12]"):
            call(client, f"127.0.0.1:{listening.getsockname()[1]}", b"", timeout_ms=200)
        assert 0.1 < time.monotonic() - began_seconds < 1
        for each in held:
            each.close()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_another_thread_may_end_the_call_under_way(tls: bool) -> None:
    client = BlockingClient(make_context(Tls(checks_server=False)) if tls else None)

    def serve(connection: socket.socket) -> None:
        next(requests(connection))
        client.end_call()
        assert connection.recv(1) == b"", "the client closes"

    with serving(serve, tls=tls) as address:
        began_seconds = time.monotonic()
        with pytest.raises(SendFailed, match="the connection was lost"):
            call(client, address, b"")
        assert time.monotonic() - began_seconds < TIMEOUT_MS / 2000, "it was woken up"
    assert not client._connections


def test_a_call_that_connects_while_it_is_ended_sends_nothing() -> None:
    client = BlockingClient()

    def serve(connection: socket.socket) -> None:
        assert connection.recv(1) == b""

    with serving(serve) as address:
        client.end_call()
        with pytest.raises(ClientClosed):
            call(client, address, b"")
        client.close()


def test_a_bad_frame_fails_the_request(client: BlockingClient) -> None:
    def serve(connection: socket.socket) -> None:
        next(requests(connection))
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with serving(serve) as address, pytest.raises(SendFailed, match=r"bad frame.*HTTP"):
        call(client, address, b"")


def test_an_interruption_closes_the_connection(client: BlockingClient) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    def serve(connection: socket.socket) -> None:
        next(requests(connection))
        signal.pthread_kill(caller, signal.SIGUSR1)
        assert connection.recv(1) == b"", "the client closes"

    caller = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with serving(serve, echo_once) as address:
            with pytest.raises(Interrupted):
                call(client, address, b"first")
            assert call(client, address, b"second") == b"second"
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "127.0.0.1:"])
def test_an_address_without_a_server_is_named(client: BlockingClient, address: str) -> None:
    with pytest.raises(ConnectFailed) as failure:
        call(client, address, b"")
    assert failure.value.address == address


def test_the_connections_are_bounded(
    client: BlockingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_client, "CONNECTIONS_MAX", 2)
    with serving(echo) as first, serving(echo) as second, serving(echo) as third:
        for address in (first, second, third):
            call(client, address, b"")
        assert list(client._connections) == [second, third]
        client.close()


def test_requests_pass_before_send() -> None:
    client = BlockingClient(
        before_send=lambda command: RemotingCommand(command.code, body=b"signed " + command.body)
    )
    with serving(echo) as address:
        assert call(client, address, b"body") == b"signed body"
        client.close()


def test_tls_is_agreed_on_with_a_trusted_server_alone() -> None:
    trusting = BlockingClient(make_context(Tls(str(FILES / "signer.pem"))))
    with serving(echo, tls=True) as address:
        assert [call(trusting, address, body) for body in (b"1", b"2")] == [b"1", b"2"]
        assert len(trusting._connections) == 1
        trusting.close()

    def refused(_: socket.socket) -> None:
        raise AssertionError("a connection was made")

    client = BlockingClient(make_context(Tls()))
    with (
        pytest.raises(AssertionError),
        serving(refused, tls=True) as address,
        pytest.raises(TlsFailed, match="its certificate is not trusted"),
    ):
        call(client, address, b"")
