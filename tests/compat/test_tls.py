"""TLS at both servers: each mode with every client, and certificates that change."""

import asyncio
import shutil
import socket
import ssl
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.actors.deployments import running, small_plan
from tests.compat.clusters import local_cluster
from tests.compat.driver import JavaDriver, bodies, message, wait_until
from tests.compat.real_rocketmq import RealNameServer, class_options
from tests.compat.together import at_once
from tests.network.test_tls import CLIENT, SERVER, SERVER_KEY, SIGNER
from tests.network.test_tls import FILES as CERTIFICATES
from wakelog.client import ClientError
from wakelog.client.sync import Producer
from wakelog.network.client import make_client
from wakelog.network.errors import RemotingError
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls, TlsMode, make_context
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand

pytestmark = [pytest.mark.java, pytest.mark.process, pytest.mark.slow]

PLAIN, ANY_SERVER = None, Tls(checks_server=False)
CLIENTS = (PLAIN, ANY_SERVER)


async def is_answered(address: str, tls: Tls | None) -> bool:
    client = make_client(Credentials(), tls)
    try:
        request = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO)
        await client.invoke(address, request, timeout_ms=5000)
        return True
    except RemotingError:
        return False
    finally:
        await client.close()


async def outcomes(address: str) -> list[bool]:
    return [await is_answered(address, tls) for tls in CLIENTS]


def real(mode: TlsMode) -> list[bool]:
    tls = ANY_SERVER if mode is TlsMode.ENFORCING else PLAIN

    def is_up(address: str) -> bool:
        return asyncio.run(is_answered(address, tls))

    server = RealNameServer(classes=[*class_options(), f"-Dtls.server.mode={mode}"], is_up=is_up)
    try:
        return asyncio.run(outcomes(server.address))
    finally:
        server.kill()


def ours(folder: Path, mode: TlsMode) -> list[bool]:
    async def main() -> list[bool]:
        plan = small_plan(folder, f"tls.server.mode={mode}")
        async with running(plan):
            found = await outcomes(plan.name_server_address)
            assert await outcomes(plan.brokers[0].address) == found
            return found

    return asyncio.run(main())


@pytest.mark.long
def test_each_mode_lets_the_same_clients_in(tmp_path: Path) -> None:
    expected = {
        TlsMode.DISABLED: [True, False],
        TlsMode.PERMISSIVE: [True, True],
        TlsMode.ENFORCING: [False, True],
    }
    found = at_once(*(partial(real, mode) for mode in TlsMode))
    assert dict(zip(TlsMode, found, strict=True)) == expected
    assert {mode: ours(tmp_path / mode, mode) for mode in TlsMode} == expected


class Files:
    """The files of a server that wants a certificate of its clients; `settings` names them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.put("own.pem", SERVER)
        self.put("own.key", SERVER_KEY)
        self.put("signers.pem", SIGNER)
        self.settings = folder / "tls.properties"
        self.settings.write_text(
            "tls.test.mode.enable=false\n"
            f"tls.server.certPath={folder}/own.pem\ntls.server.keyPath={folder}/own.key\n"
            "tls.server.need.client.auth=require\ntls.server.authClient=true\n"
            f"tls.server.trustCertPath={folder}/signers.pem\n"
        )

    def put(self, name: str, source: str | Path) -> None:
        """Put a copy in the place of a file, whole at any moment."""
        new = self._folder / f"{name}.new"
        shutil.copyfile(source, new)
        new.rename(self._folder / name)


KNOWN = Tls(
    cert_path=CLIENT,
    key_path=str(CERTIFICATES / "client_without_password.key"),
    checks_server=False,
    checks_host=False,
)


def shown(address: str) -> bytes:
    """Return the certificate that a server shows to a client that has one; b"" if refused."""
    host, _, port = address.rpartition(":")
    context = make_context(KNOWN)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # its handshake ends with the server's verdict
    try:
        with (
            socket.create_connection((host, int(port)), 20) as plain,
            context.wrap_socket(plain, server_hostname=host) as wrapped,
        ):
            return wrapped.getpeercert(binary_form=True) or b""
    except OSError:
        return b""


def change_certificates(files: Files, address: str) -> None:
    """Change files one after the other, and wait each time until the server has read them."""

    def wait_shown(path: str) -> None:
        expected = ssl.PEM_cert_to_DER_cert(Path(path).read_text()) if path else b""
        wait_until(lambda: shown(address) == expected, what=f"shown {path or 'nothing'}")

    wait_shown(SERVER)
    files.put("signers.pem", SERVER)  # it has signed no client
    wait_shown("")
    files.put("signers.pem", SIGNER)
    wait_shown(SERVER)
    files.put("own.pem", CLIENT)
    files.put("own.key", CERTIFICATES / "client_without_password.key")
    wait_shown(CLIENT)


def change_theirs(folder: Path) -> None:
    files = Files(folder)
    options = ["-Dtls.server.mode=permissive", f"-Dtls.config.file={files.settings}"]
    server = RealNameServer(classes=[*class_options(), *options])
    try:
        change_certificates(files, server.address)
    finally:
        server.kill()


def change_ours(folder: Path) -> None:
    files = Files(folder)
    settings = {"tls.config.file": str(files.settings)}
    with local_cluster(folder, settings=settings) as cluster:
        change_certificates(files, cluster.name_server)
        wait_until(
            lambda: shown(cluster.broker) == shown(cluster.name_server) != b"",
            what="read by the broker, too",
        )


@pytest.mark.long
def test_both_read_their_certificates_again(tmp_path: Path) -> None:
    at_once(partial(change_theirs, tmp_path / "real"), partial(change_ours, tmp_path / "ours"))


def test_rocketmqs_own_clients_send_and_read_with_tls(tmp_path: Path) -> None:
    place: dict[str, Any] = {"broker": "broker-a", "queueId": 0}
    with (
        local_cluster(tmp_path) as cluster,
        JavaDriver(cluster.name_server, properties={"tls.enable": "true"}) as driver,
    ):
        driver("createTopic", address=cluster.broker, topic="secret", queues=1)
        # 300 KB: several records of TLS for one frame.
        sent = [b"first", b"x" * 300_000]
        driver("send", group="g", messages=[message("secret", body, **place) for body in sent])
        with Producer(cluster.name_server, tls=ANY_SERVER) as producer:
            producer.send("secret", b"Python's", queue=("broker-a", 0))
        sent.append(b"Python's")
        with pytest.raises(ClientError, match="certificate"):
            Producer(cluster.name_server, tls=True).__enter__()
        received: list[dict[str, Any]] = []
        while len(received) < len(sent):
            pulled = driver(
                "pullBlocking", topic="secret", offset=len(received), countMax=2, **place
            )
            received += pulled["messages"]
        assert bodies(received) == sent
