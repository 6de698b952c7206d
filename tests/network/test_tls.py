"""TLS of a client: which servers it trusts, the errors, and brokers of 4.9.3.

The certificates are for 127.0.0.1, of one signer, for a hundred years; the key of `client` has the
password `hush`.
"""

import asyncio
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.compat.clusters import Cluster
from tests.compat.real_rocketmq import RealBroker, RealNameServer, class_options
from tests.network.test_client import Peer, echo, request
from tests.spark.remote.conftest import numbered, send
from wakelog.network.certificate_dates import valid_until_ms
from wakelog.network.client import make_client
from wakelog.network.errors import ConnectFailed, SendFailed, TlsFailed, TlsRefused
from wakelog.network.self_signed import NOT_AFTER, make_pem
from wakelog.network.signing import Credentials
from wakelog.network.tls import ServerContext, ServerTls, Tls, TlsMode, make_context
from wakelog.protocol.frame import FrameDecoder

FILES = Path(__file__).parent / "certificates"
SIGNER, SERVER, SERVER_KEY, CLIENT, CLIENT_KEY = (
    str(FILES / name)
    for name in ("signer.pem", "server.pem", "server.key", "client.pem", "client.key")
)
TRUSTING = Tls(SIGNER)
KNOWN = Tls(SIGNER, CLIENT, CLIENT_KEY, "hush")


def serving(*, asks: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(SERVER, SERVER_KEY)
    if asks:
        context.load_verify_locations(SIGNER)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def call(tls: Tls | None, server: ssl.SSLContext | None, *, host: str = "127.0.0.1") -> bytes:
    """Send a body to a server that returns it, and return the response's."""

    async def scenario() -> bytes:
        async with Peer(echo, server) as peer:
            client = make_client(Credentials(), tls)
            try:
                address = f"{host}:{peer.address.rpartition(':')[2]}"
                answer = await client.invoke(address, request(b"hello"), timeout_ms=5000)
                return bytes(answer.body)
            finally:
                await client.close()

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("tls", "asks", "host"),
    [
        (TRUSTING, False, "127.0.0.1"),
        (KNOWN, True, "127.0.0.1"),
        (Tls(SIGNER, checks_host=False), False, "localhost"),
        (Tls(checks_server=False), False, "localhost"),
    ],
)
def test_a_client_calls_a_trusted_server(tls: Tls, asks: bool, host: str) -> None:
    assert call(tls, serving(asks=asks), host=host) == b"hello"


@pytest.mark.parametrize(
    ("tls", "host", "reason"),
    [
        (Tls(), "127.0.0.1", "its certificate is not trusted: unable to get local issuer"),
        (Tls(CLIENT), "127.0.0.1", "its certificate is not trusted: unable to get"),
        (TRUSTING, "localhost", "its certificate is not trusted: Hostname mismatch"),
    ],
)
def test_a_client_sends_nothing_to_a_server_that_it_does_not_trust(
    tls: Tls, host: str, reason: str
) -> None:
    with pytest.raises(TlsFailed, match=reason):
        call(tls, serving(), host=host)


def test_a_server_closes_connections_without_a_client_certificate() -> None:
    # With TLS 1.3 the server says so after the handshake.
    with pytest.raises((TlsFailed, SendFailed)):
        call(TRUSTING, serving(asks=True))


def test_one_end_with_tls_and_one_without_do_not_connect() -> None:
    with pytest.raises(SendFailed):
        call(None, serving())

    async def scenario() -> None:
        async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.close()

        async with await asyncio.start_server(end, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = make_client(Credentials(), TRUSTING)
            with pytest.raises(TlsFailed, match="ended the connection before TLS was agreed on"):
                await client.invoke(f"127.0.0.1:{port}", request(), timeout_ms=5000)
            await client.close()

    asyncio.run(scenario())


def test_close_does_not_wait_for_a_server_that_keeps_tls_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wakelog.network.client.TLS_CLOSE_SECONDS_MAX", 0.05)
    ended = threading.Event()

    def serve(listening: socket.socket) -> None:
        plain, _ = listening.accept()
        with serving().wrap_socket(plain, server_side=True) as connection:
            [asked] = FrameDecoder().feed(connection.recv(65536))
            connection.sendall(echo(asked))
            ended.wait(10)

    async def scenario(address: str) -> None:
        client = make_client(Credentials(), TRUSTING)
        await client.invoke(address, request(), timeout_ms=5000)
        await client.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=serve, args=(listening,))
        server.start()
        started = time.monotonic()
        asyncio.run(scenario(f"127.0.0.1:{listening.getsockname()[1]}"))
        assert time.monotonic() - started < 10
        ended.set()
        server.join()


def test_a_closed_port_is_not_a_tls_failure() -> None:
    async def scenario() -> None:
        client = make_client(Credentials(), TRUSTING)
        with pytest.raises(ConnectFailed) as caught:
            await client.invoke("127.0.0.1:1", request(), timeout_ms=5000)
        assert not isinstance(caught.value, TlsFailed)
        await client.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        (Tls("/nowhere.pem"), "/nowhere.pem cannot be read as certificates: No such file"),
        (Tls(CLIENT_KEY), "client.key cannot be read as certificates: no certificate"),
        (Tls(SIGNER, CLIENT, CLIENT_KEY, "guessed"), "client.key cannot be read as a certificate"),
        (Tls(SIGNER, CLIENT, CLIENT_KEY), "client.key cannot be read as a certificate and its key"),
        (Tls(SIGNER, CLIENT, SERVER_KEY), "key values mismatch"),
        (Tls(SIGNER, SERVER), "server.pem cannot be read as a certificate and its key"),
    ],
)
def test_an_error_names_the_files_that_cannot_be_used(tls: Tls, words: str) -> None:
    with pytest.raises(TlsRefused, match=words):
        make_context(tls)


def test_a_password_is_not_shown() -> None:
    assert "hush" not in repr(KNOWN) and "client.pem" in repr(KNOWN)


@pytest.mark.java
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.long
def test_a_real_broker_in_enforcing_mode_is_written_to_and_read(tmp_path: Path) -> None:
    both = (
        *class_options(),
        "-Dtls.test.mode.enable=false",
        f"-Dtls.server.certPath={SERVER}",
        f"-Dtls.server.keyPath={SERVER_KEY}",
    )
    name_server = RealNameServer(classes=[*both, "-Dtls.server.mode=permissive"])
    try:
        options = [
            *both,
            "-Dtls.server.mode=enforcing",
            "-Dtls.server.need.client.auth=require",
            "-Dtls.server.authClient=true",
            f"-Dtls.server.trustCertPath={SIGNER}",
        ]
        broker = RealBroker(
            tmp_path / "broker",
            tmp_path / "store",
            name_server=name_server.address,
            classes=options,
        )
        broker.start()
        try:
            cluster = Cluster(name_server.address, broker.address, broker.store)
            messages = numbered("secret", range(100))
            send(cluster, messages, tls=KNOWN)
            with pytest.raises(Exception, match="TLS"):
                send(cluster, messages)
        finally:
            broker.kill()
    finally:
        name_server.kill()


def test_a_key_as_rocketmqs_documentation_makes_it_is_read() -> None:
    """`openssl pkcs8 -topk8 -v1 PBE-SHA1-RC4-128`, which OpenSSL 3 refuses without a reason."""
    old_key = str(FILES / "server_rc4.key")
    with pytest.raises(ssl.SSLError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(SERVER, old_key, lambda: "hush")
    settings = ServerTls(TlsMode.ENFORCING, SERVER, old_key, "hush")
    context = asyncio.run(ServerContext(settings).get())
    assert call(TRUSTING, context) == b"hello"
    with pytest.raises(TlsRefused, match=r"server_rc4\.key cannot be read as a certificate and"):
        ServerContext(settings._replace(key_password="other"))
    with pytest.raises(TlsRefused, match=r"signer\.pem"):
        ServerContext(settings._replace(key_path=SIGNER))


def test_a_certificate_signs_itself_and_differs_each_time() -> None:
    first, second = (x509.load_pem_x509_certificate(make_pem()) for _ in range(2))
    first.verify_directly_issued_by(first)
    assert first.not_valid_after_utc == NOT_AFTER
    assert first.serial_number != second.serial_number
    assert first.public_key() != second.public_key()


BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_certificate_says_until_when_it_is_valid() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    end = BEGIN + timedelta(days=30)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), BEGIN, end
    ).sign(key, hashes.SHA256())
    encoded = made.public_bytes(serialization.Encoding.DER)
    assert valid_until_ms(encoded) == end.timestamp() * 1000
    assert valid_until_ms(encoded[:40]) == valid_until_ms(b"") == 0
