"""One port for clients with and without TLS: real sockets, on both loops, in all three modes."""

import asyncio
import contextlib
import gc
import socket
import ssl
import threading
from collections.abc import AsyncIterator

import pytest
import uvloop

from tests.compat.driver import DriverError, JavaDriver
from tests.network.conftest import Run
from tests.network.fakes import FakeClock, FakeHandler, no_collections
from tests.network.test_server import HOST, Peer, listening_port, make_server, serving
from tests.network.test_tls import (
    CLIENT,
    CLIENT_KEY,
    FILES,
    KNOWN,
    SERVER,
    SERVER_KEY,
    SIGNER,
    TRUSTING,
)
from wakelog.network import handshake_line, self_signed
from wakelog.network.client import RemotingClient, make_client
from wakelog.network.errors import RemotingError, SendFailed, TlsFailed, TlsRefused
from wakelog.network.limits import ServerLimits
from wakelog.network.self_signed import make_pem
from wakelog.network.server import Server
from wakelog.network.signing import Credentials
from wakelog.network.tls import WITHOUT_TLS, ClientAuth, ServerContext, ServerTls, Tls, TlsMode
from wakelog.network.tls_gate import TlsGate
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.frame import encode_frame

# Netty reads no key with a password of this kind.
KNOWN_TO_JAVA = Tls(SIGNER, CLIENT, str(FILES / "client_without_password.key"))
PERMISSIVE = ServerTls(TlsMode.PERMISSIVE, SERVER, SERVER_KEY)
ENFORCING = PERMISSIVE._replace(mode=TlsMode.ENFORCING)


def echo(request: RemotingCommand) -> RemotingCommand:
    return answer(request, 0, body=request.body)


async def called(port: int, tls: Tls | None, body: bytes = b"hello") -> bytes:
    """Return what the server answers to a new client."""
    client = make_client(Credentials(), tls)
    try:
        request = RemotingCommand(10, body=body)
        found = await client.invoke(f"{HOST}:{port}", request, timeout_ms=5000)
        return bytes(found.body)
    finally:
        await client.close()


def closed_count(server: Server, reason: str) -> int:
    return server.statistics().connections.closed_count[reason]


async def wait_closed(server: Server, reason: str) -> None:
    async with asyncio.timeout(5):
        while not closed_count(server, reason):
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def raw(port: int) -> AsyncIterator[socket.socket]:
    """A connection whose client sends any bytes."""
    with socket.create_connection((HOST, port)) as connection:
        connection.setblocking(False)
        yield connection


@pytest.mark.parametrize(
    ("tls", "modes"),
    [
        (None, {TlsMode.DISABLED, TlsMode.PERMISSIVE}),
        (TRUSTING, {TlsMode.PERMISSIVE, TlsMode.ENFORCING}),
    ],
    ids=["without TLS", "with TLS"],
)
@pytest.mark.parametrize("mode", TlsMode)
def test_a_mode_accepts_its_clients(
    run: Run, mode: TlsMode, tls: Tls | None, modes: set[TlsMode]
) -> None:
    async def main() -> None:
        handler = FakeHandler(echo)
        async with serving(handler, tls=ServerContext(PERMISSIVE._replace(mode=mode))) as (
            server,
            port,
        ):
            if mode in modes:
                assert await called(port, tls) == b"hello"
            else:
                with pytest.raises(TlsFailed if tls else SendFailed):
                    await called(port, tls)
                assert not handler.processed
                reason = "noTls" if mode is TlsMode.ENFORCING else "badFrame"
                await wait_closed(server, reason)

    run(main)


@pytest.mark.parametrize("size_bytes", [0, 100_000, 3_000_000])
def test_clients_with_and_without_tls_share_a_port(run: Run, size_bytes: int) -> None:
    async def main() -> None:
        bodies = [bytes([index]) * size_bytes for index in range(4)]
        async with serving(FakeHandler(echo), tls=ServerContext(PERMISSIVE)) as (server, port):
            calls = [
                called(port, TRUSTING if index % 2 else None, body)
                for index, body in enumerate(bodies)
            ]
            assert await asyncio.gather(*calls) == bodies
            assert server.statistics().connections.accepted_count == 4

    run(main)


def test_the_gate_is_out_of_the_way_after_the_first_byte(run: Run) -> None:
    async def main() -> None:
        async with serving(FakeHandler(echo), tls=ServerContext(PERMISSIVE)) as (server, port):
            for tls in (None, TRUSTING):
                client = make_client(Credentials(), tls)
                await client.invoke(f"{HOST}:{port}", RemotingCommand(10), timeout_ms=5000)
                [connection] = server._table
                protocol = connection._transport.get_protocol()
                assert protocol is connection
                await client.close()
                while len(server._table):
                    await asyncio.sleep(0.001)

    run(main)


def test_pipelined_requests_and_requests_of_the_server_pass_through_tls(run: Run) -> None:
    async def main() -> None:
        async def execute(address: str, request: RemotingCommand) -> RemotingCommand:
            return answer(request, 0, body=b"asked")

        handler = FakeHandler(echo)
        async with serving(handler, tls=ServerContext(ENFORCING)) as (server, port):
            client = make_client(Credentials(), TRUSTING, execute)
            bodies = [b"%d" % index for index in range(500)]
            calls = [
                client.invoke(f"{HOST}:{port}", RemotingCommand(10, body=body), timeout_ms=5000)
                for body in bodies
            ]
            assert [one.body for one in await asyncio.gather(*calls)] == bodies
            channel = handler.channels[0]
            assert channel.remote_host == HOST
            found = await server.request(channel.id, RemotingCommand(307), timeout_seconds=5)
            assert found.body == b"asked"
            await client.close()

    run(main)


@pytest.mark.parametrize("step", [1, 2, 100])
def test_a_handshake_may_arrive_in_pieces(run: Run, step: int) -> None:
    """The gate sees only the first piece."""

    async def main() -> None:
        async with serving(FakeHandler(echo), tls=ServerContext(ENFORCING)) as (_, port):
            context = ssl.create_default_context(cafile=SIGNER)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = context.wrap_bio(incoming, outgoing, server_hostname=HOST)
            loop = asyncio.get_running_loop()
            async with raw(port) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

                async def send() -> None:
                    data = outgoing.read()
                    for begin in range(0, len(data), step):
                        await loop.sock_sendall(connection, data[begin : begin + step])
                        await asyncio.sleep(0)

                while True:
                    try:
                        tls.do_handshake()
                        break
                    except ssl.SSLWantReadError:
                        await send()
                        incoming.write(await loop.sock_recv(connection, 65_536))
                # The first request arrives with the end of the handshake, in one piece.
                tls.write(encode_frame(RemotingCommand(10, 7, body=b"x")))
                await loop.sock_sendall(connection, outgoing.read())
                found = b""
                while b"x" not in found:
                    incoming.write(await loop.sock_recv(connection, 65_536))
                    with contextlib.suppress(ssl.SSLWantReadError):
                        found += tls.read(65_536)

    run(main)


@pytest.mark.parametrize(
    ("auth", "tls", "is_accepted"),
    [
        (ClientAuth.REQUIRE, KNOWN, True),
        (ClientAuth.REQUIRE, TRUSTING, False),
        (ClientAuth.OPTIONAL, KNOWN, True),
        (ClientAuth.OPTIONAL, TRUSTING, True),
    ],
)
def test_clients_authenticate_by_their_certificates(
    run: Run, auth: ClientAuth, tls: Tls, is_accepted: bool
) -> None:
    async def main() -> None:
        settings = ENFORCING._replace(trust_path=SIGNER, client_auth=auth)
        handler = FakeHandler(echo)
        async with serving(handler, tls=ServerContext(settings)) as (server, port):
            if is_accepted:
                assert await called(port, tls) == b"hello"
                return
            with pytest.raises(RemotingError):
                await called(port, tls)
            await wait_closed(server, "tlsHandshake")
            assert not handler.processed

    run(main)


@pytest.mark.parametrize(
    "data",
    [b"\x16" * 100, b"\x16\x03\x01\x00\x05hello" * 20, b"\x16\x03\x01\xff\xff" + b"\xff" * 70_000],
    ids=["one byte repeated", "no hello in the record", "a record above the limit"],
)
def test_garbage_after_the_first_byte_closes_the_connection(run: Run, data: bytes) -> None:
    async def main() -> None:
        handler = FakeHandler(echo)
        async with (
            serving(handler, tls=ServerContext(PERMISSIVE)) as (server, port),
            raw(port) as connection,
        ):
            await asyncio.get_running_loop().sock_sendall(connection, data)
            await wait_closed(server, "tlsHandshake")
            assert await called(port, TRUSTING) == b"hello"
            assert len(handler.processed) == 1

    run(main)


def test_a_half_handshake_ends_with_its_connection(run: Run) -> None:
    async def main() -> None:
        handler = FakeHandler(echo)
        async with serving(handler, tls=ServerContext(PERMISSIVE)) as (server, port):
            async with raw(port) as connection:
                await asyncio.get_running_loop().sock_sendall(connection, b"\x16\x03\x01")
                while not server.statistics().connections.open_count:
                    await asyncio.sleep(0.001)
                await asyncio.sleep(0.01)
                assert server.statistics().connections.open_count == 1
            await wait_closed(server, "tlsHandshake")
            assert server.statistics().connections.open_count == 0
            while not handler.closed:
                await asyncio.sleep(0)

    run(main)


def test_a_slow_handshake_is_limited(run: Run) -> None:
    async def main() -> None:
        limits = ServerLimits(handshake_seconds_max=0.05)
        async with (
            serving(FakeHandler(echo), limits, tls=ServerContext(PERMISSIVE)) as (server, port),
            raw(port) as connection,
        ):
            await asyncio.get_running_loop().sock_sendall(connection, b"\x16\x03\x01\x02\x00")
            await wait_closed(server, "tlsHandshake")

    run(main)


def test_a_client_gets_through_beside_more_handshakes_than_may_be_unfinished(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake_line, "UNFINISHED_MAX", 4)

    async def main() -> None:
        async with (
            serving(FakeHandler(echo), tls=ServerContext(PERMISSIVE)) as (server, port),
            contextlib.AsyncExitStack() as stack,
        ):
            for _ in range(10):
                half = await stack.enter_async_context(raw(port))
                await asyncio.get_running_loop().sock_sendall(half, b"\x16\x03\x01")
            assert await called(port, TRUSTING) == b"hello"
            async with asyncio.timeout(5):
                while closed_count(server, "tlsHandshake") < 6:
                    await asyncio.sleep(0.001)
            assert await called(port, TRUSTING) == b"hello"
            assert server.statistics().connections.open_count <= 4

    run(main)


def test_nothing_of_a_handshake_that_failed_waits_for_a_full_collection() -> None:
    """On the loop of servers; asyncio's own TLS has cycles itself."""

    async def main() -> None:
        async with serving(FakeHandler(echo), tls=ServerContext(PERMISSIVE)) as (server, port):
            loop = asyncio.get_running_loop()
            for number in range(1, 4):
                async with raw(port) as connection:
                    await loop.sock_sendall(connection, b"\x16\x03\x01")
                    while not server.statistics().connections.open_count:
                        await asyncio.sleep(0.001)
                    await asyncio.sleep(0.01)
                async with asyncio.timeout(5):
                    while closed_count(server, "tlsHandshake") < number:
                        await asyncio.sleep(0.001)
            await asyncio.sleep(0)
            assert not [one for one in gc.get_objects() if isinstance(one, TlsGate)]

    gc.collect()  # what other tests left
    with no_collections():
        uvloop.run(main())


def test_a_connection_in_its_handshake_counts_and_ends_with_the_server(run: Run) -> None:
    async def main() -> None:
        limits = ServerLimits(connections_max=1, connections_per_host_max=1)
        server = make_server(FakeHandler(echo), limits, tls=ServerContext(PERMISSIVE))
        port = await listening_port(server)
        async with raw(port) as connection:
            await asyncio.get_running_loop().sock_sendall(connection, b"\x16\x03\x01")
            while not server.statistics().connections.open_count:
                await asyncio.sleep(0.001)
            second = await Peer.connect(port)
            assert await second.is_closed()
            await second.close()
            assert closed_count(server, "tooMany") == 1
            await asyncio.sleep(0.01)
            await server.close(grace_seconds=1)
            assert server.statistics().connections.open_count == 0

    run(main)


def test_a_connection_without_its_first_byte_is_closed_as_idle(run: Run) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with (
            serving(FakeHandler(echo), tls=ServerContext(PERMISSIVE), clock_seconds=clock) as (
                server,
                port,
            ),
            raw(port) as connection,
        ):
            while not server.statistics().connections.open_count:
                await asyncio.sleep(0.001)
            clock.seconds += 119
            server.sweep()
            assert server.statistics().connections.open_count == 1
            clock.seconds += 1
            server.sweep()
            assert await asyncio.get_running_loop().sock_recv(connection, 1) == b""
            await wait_closed(server, "idle")

    run(main)


def test_new_certificates_are_for_new_connections(run: Run) -> None:
    async def main() -> None:
        async with serving(FakeHandler(echo), tls=ServerContext(ENFORCING)) as (server, port):
            old = make_client(Credentials(), TRUSTING)
            address = f"{HOST}:{port}"
            await old.invoke(address, RemotingCommand(10), timeout_ms=5000)
            other = ENFORCING._replace(cert_path=CLIENT, key_path=CLIENT_KEY, key_password="hush")
            server.use_tls(ServerContext(other))
            with pytest.raises(TlsFailed, match="not trusted"):
                await called(port, TRUSTING)
            await old.invoke(address, RemotingCommand(10), timeout_ms=5000)
            with pytest.raises(TlsRefused, match=r"/nowhere\.pem and .*server\.key cannot be read"):
                ServerContext(ENFORCING._replace(cert_path="/nowhere.pem"))
            server.use_tls(WITHOUT_TLS)
            assert await called(port, None) == b"hello"
            await old.close()

    run(main)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ServerTls(TlsMode.ENFORCING), "an empty path cannot be read as a certificate"),
        (ENFORCING._replace(client_auth=ClientAuth.REQUIRE), "an empty path cannot be read"),
        (ENFORCING._replace(key_path=CLIENT_KEY), "server.pem and .*client.key cannot be read"),
    ],
)
def test_a_server_without_its_files_does_not_start(settings: ServerTls, words: str) -> None:
    with pytest.raises(TlsRefused, match=words):
        ServerContext(settings)


SELF_SIGNED = ServerTls(TlsMode.PERMISSIVE, is_self_signed=True)
ANY_SERVER = Tls(checks_server=False)


def test_a_server_signs_a_certificate_when_the_first_clients_want_one(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bytes] = []

    def make() -> bytes:
        made.append(make_pem())
        return made[-1]

    monkeypatch.setattr(self_signed, "make_pem", make)

    async def main() -> None:
        async with serving(FakeHandler(echo), tls=ServerContext(SELF_SIGNED)) as (_, port):
            assert await called(port, None) == b"hello"
            assert not made
            answers = await asyncio.gather(*(called(port, ANY_SERVER) for _ in range(3)))
            assert answers == [b"hello"] * 3
            with pytest.raises(TlsFailed, match="not trusted"):
                await called(port, Tls())
        assert len(made) == 1

    run(main)


def test_while_a_certificate_is_made_no_handshake_begins(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_make = threading.Event()
    begun: list[bool] = []
    begin = TlsGate.begin

    def make() -> bytes:
        may_make.wait()
        return make_pem()

    def note(gate: TlsGate) -> bool:
        begun.append(may_make.is_set())
        return begin(gate)

    monkeypatch.setattr(self_signed, "make_pem", make)
    monkeypatch.setattr(TlsGate, "begin", note)

    async def main() -> None:
        async with serving(FakeHandler(echo), tls=ServerContext(SELF_SIGNED)) as (server, port):
            calls = [asyncio.ensure_future(called(port, ANY_SERVER)) for _ in range(6)]
            while server.statistics().connections.open_count < len(calls):
                await asyncio.sleep(0.001)
            assert await called(port, None) == b"hello"
            may_make.set()
            assert await asyncio.gather(*calls) == [b"hello"] * len(calls)

    try:
        run(main)
    finally:
        may_make.set()
    assert begun == [True] * 6


def test_a_certificate_that_cannot_be_made_closes_the_connection(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space() -> bytes:
        raise OSError(28, "No space left on device")

    async def main() -> None:
        async with serving(FakeHandler(echo), tls=ServerContext(SELF_SIGNED)) as (server, port):
            monkeypatch.setattr(self_signed, "make_pem", no_space)
            with pytest.raises(TlsFailed):
                await called(port, ANY_SERVER)
            await wait_closed(server, "tlsHandshake")
            monkeypatch.undo()
            assert await called(port, ANY_SERVER) == b"hello"

    run(main)


def test_a_password_of_a_server_is_not_shown() -> None:
    assert "hush" not in repr(ENFORCING._replace(key_password="hush"))
    assert "server.pem" in repr(ENFORCING)


def test_calls_over_tls_end_when_the_server_closes(run: Run) -> None:
    async def main() -> None:
        handler = FakeHandler(lambda request: None)
        async with serving(handler, tls=ServerContext(ENFORCING)) as (server, port):
            client: RemotingClient = make_client(Credentials(), TRUSTING)
            waiting = asyncio.ensure_future(
                client.invoke(f"{HOST}:{port}", RemotingCommand(10), timeout_ms=5000)
            )
            while not handler.processed:
                await asyncio.sleep(0.001)
            await server.close(grace_seconds=1)
            with pytest.raises(SendFailed, match="the connection was lost"):
                await waiting
            await client.close()

    run(main)


def no_route(request: RemotingCommand) -> RemotingCommand:
    return answer(request, ResponseCode.TOPIC_NOT_EXIST, "no route")


def java_code(port: int, tls: Tls | None) -> int | None:
    """Return the code that RocketMQ's own client gets for a route; None if it gets no response."""
    properties = {}
    if tls is not None:
        properties = {
            "tls.enable": "true",
            "tls.test.mode.enable": "false",
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": tls.trust_path,
            "tls.client.certPath": tls.cert_path,
            "tls.client.keyPath": tls.key_path,
        }
    with JavaDriver(f"{HOST}:{port}", properties=properties) as driver:
        try:
            driver("route", topic="secret")
        except DriverError as error:
            return error.code
    raise AssertionError("there is a route")


@pytest.mark.java
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.long
def test_rocketmqs_own_clients_use_one_port_with_and_without_tls() -> None:
    async def main() -> None:
        settings = ServerTls(
            TlsMode.PERMISSIVE,
            SERVER,
            SERVER_KEY,
            trust_path=SIGNER,
            client_auth=ClientAuth.REQUIRE,
        )
        async with serving(FakeHandler(no_route), tls=ServerContext(settings)) as (server, port):
            assert await asyncio.to_thread(java_code, port, None) == 17
            assert await asyncio.to_thread(java_code, port, KNOWN_TO_JAVA) == 17
            server.use_tls(ServerContext(settings._replace(mode=TlsMode.ENFORCING)))
            assert await asyncio.to_thread(java_code, port, KNOWN_TO_JAVA) == 17
            assert await asyncio.to_thread(java_code, port, None) != 17
            assert closed_count(server, "noTls") > 0

    asyncio.run(main())
