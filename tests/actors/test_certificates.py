"""Certificates on the ports of a server, and new ones while it runs."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from ssl import PEM_cert_to_DER_cert as pem_to_der

import msgspec
import pytest
from cryptography import x509

from tests.actors.deployments import running, small_plan, wait_until
from tests.network.fakes import FakeHandler
from tests.network.test_server import serving
from tests.network.test_tls import CLIENT, FILES, SERVER, SERVER_KEY, SIGNER, TRUSTING
from tests.network.test_tls_gate import called, echo
from wakelog.actors.certificates import read_certificates
from wakelog.network.certificate_dates import file_valid_until_ms, valid_until_ms
from wakelog.network.errors import SendFailed, TlsFailed, TlsRefused
from wakelog.network.tls import TlsMode
from wakelog.network.tls_properties import TlsSource

WATCH_SECONDS = 0.01
CLIENT_KEY = str(FILES / "client_without_password.key")


def source(directory: Path, mode: TlsMode = TlsMode.ENFORCING) -> TlsSource:
    """Return the settings of a server with its own copy of its certificate."""
    shutil.copy(SERVER, directory / "own.pem")
    shutil.copy(SERVER_KEY, directory / "own.key")
    path = directory / "tls.properties"
    path.write_text(
        "tls.test.mode.enable=false\ntls.server.certPath=own.pem\ntls.server.keyPath=own.key\n"
        f"tls.client.authServer=true\ntls.client.trustCertPath={SIGNER}\n"
    )
    return TlsSource(mode, str(path), str(directory))


@asynccontextmanager
async def watched(tls: TlsSource) -> AsyncIterator[int]:
    """The port of a server that watches its files."""
    certificates = await read_certificates(tls, watch_seconds=WATCH_SECONDS)
    async with serving(FakeHandler(echo), tls=certificates.context) as (server, port):
        certificates.watch(server)
        yield port
        certificates.close()


def test_a_server_uses_its_files_and_a_client_of_the_process_trusts_it(tmp_path: Path) -> None:
    async def main() -> None:
        tls = source(tmp_path)
        async with watched(tls) as port:
            assert await called(port, TRUSTING) == b"hello"
            with pytest.raises(SendFailed):
                await called(port, None)
        context = await (await read_certificates(tls)).client_context()
        assert context.verify_mode.name == "CERT_REQUIRED"

    asyncio.run(main())


async def is_trusted(port: int) -> bool:
    try:
        return await called(port, TRUSTING) == b"hello"
    except TlsFailed:
        return False


def test_a_new_certificate_is_used_once_its_key_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def is_not_trusted(port: int) -> bool:
        return not await is_trusted(port)

    async def main() -> None:
        async with watched(source(tmp_path)) as port:
            shutil.copy(CLIENT, tmp_path / "own.pem")
            assert await is_trusted(port)
            shutil.copy(CLIENT_KEY, tmp_path / "own.key")
            await wait_until(lambda: is_not_trusted(port), "the other certificate is used")
            (tmp_path / "own.pem").write_text("no certificate")
            shutil.copy(SERVER_KEY, tmp_path / "own.key")
            await wait_until(lambda: "the old ones stay" in caplog.text, "the bad one is refused")
            assert not await is_trusted(port)
            shutil.copy(SERVER, tmp_path / "own.pem")
            await wait_until(lambda: is_trusted(port), "the first certificate is used again")

    asyncio.run(main())


def test_it_is_known_until_when_a_certificate_is_valid(tmp_path: Path) -> None:
    async def statistics(tls: TlsSource) -> dict[str, int]:
        return (await read_certificates(tls)).statistics()

    tls = source(tmp_path)
    expected = x509.load_pem_x509_certificate(Path(SERVER).read_bytes()).not_valid_after_utc
    found = asyncio.run(statistics(tls))
    assert found["valid_until_ms"] == expected.timestamp() * 1000
    own = asyncio.run(statistics(TlsSource(TlsMode.PERMISSIVE, "", str(tmp_path))))
    assert own["read_count"] == 1 and "valid_until_ms" not in own, "it signs it itself"


def test_a_chain_is_valid_as_long_as_each_of_its_certificates(tmp_path: Path) -> None:
    ends = {valid_until_ms(pem_to_der(Path(path).read_text())) for path in (SERVER, SIGNER)}
    chain = tmp_path / "chain.pem"
    chain.write_text(Path(SERVER).read_text() + Path(SIGNER).read_text())
    assert file_valid_until_ms(str(chain)) == min(ends)
    chain.write_text("no certificate")
    assert file_valid_until_ms(str(chain)) == file_valid_until_ms("/nowhere") == 0


def test_a_server_without_tls_reads_nothing() -> None:
    async def main() -> None:
        async with watched(TlsSource(TlsMode.DISABLED, "/nowhere")) as port:
            assert await called(port, None) == b"hello"

    asyncio.run(main())


def test_a_server_whose_files_cannot_be_used_does_not_start(tmp_path: Path) -> None:
    async def main() -> None:
        tls = source(tmp_path)
        (tmp_path / "own.key").write_text("no key")
        with pytest.raises(TlsRefused, match=r"own\.pem and .*own\.key cannot be read"):
            async with watched(tls):
                pass

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("settings", [("tls.server.mode=enforcing",), ("tls.enable=true",)])
def test_a_broker_registers_with_tls(tmp_path: Path, settings: tuple[str, ...]) -> None:
    tls = source(tmp_path)
    plan = small_plan(tmp_path / "store", *settings, f"tls.config.file={tls.config_path}")
    # Relative paths begin where the command was started.
    tls = msgspec.structs.replace(plan.tls, directory=str(tmp_path))
    brokers = tuple(msgspec.structs.replace(broker, tls=tls) for broker in plan.brokers)
    assert plan.name_server is not None
    name_server = msgspec.structs.replace(plan.name_server, tls=tls)
    plan = msgspec.structs.replace(plan, tls=tls, brokers=brokers, name_server=name_server)

    async def main() -> None:
        async with running(plan) as (deployment, _):
            found = await deployment.statistics()
            [broker] = found["brokers"].values()
            assert broker["name_servers"]["registered_count"] == 1
            for port in (int(plan.name_server_address.split(":")[1]), plan.ports[1].port):
                assert await called(port, TRUSTING) == b""

    asyncio.run(main())
