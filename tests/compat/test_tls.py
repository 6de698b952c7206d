"""TLS without a certificate of one's own: each mode, with every client, at both servers."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.actors.deployments import running, small_plan
from tests.compat.clusters import local_cluster
from tests.compat.driver import JavaDriver, bodies, message
from tests.compat.real_rocketmq import RealNameServer, class_options
from tests.compat.together import at_once
from wakelog.client import ClientError
from wakelog.client.sync import Producer
from wakelog.network.client import make_client
from wakelog.network.errors import RemotingError
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls, TlsMode
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


def test_each_mode_lets_the_same_clients_in(tmp_path: Path) -> None:
    expected = {
        TlsMode.DISABLED: [True, False],
        TlsMode.PERMISSIVE: [True, True],
        TlsMode.ENFORCING: [False, True],
    }
    found = at_once(*(partial(real, mode) for mode in TlsMode))
    assert dict(zip(TlsMode, found, strict=True)) == expected
    assert {mode: ours(tmp_path / mode, mode) for mode in TlsMode} == expected


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
