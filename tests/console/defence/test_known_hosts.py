"""No value from a request leads the console to a host that no name server knows."""

import asyncio
import queue
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.console.site import Serving
from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.options import ClientOptions
from wakelog.console.actions.table import ACTIONS
from wakelog.console.defence.known_hosts import KnownHosts, limited
from wakelog.console.pages.app import PAGES
from wakelog.network.errors import ConnectFailed
from wakelog.protocol.bodies import BrokerData, ClusterInfo
from wakelog.protocol.body_codec import encode_body
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.message_id import create_message_id

NAME_SERVER = "n:1"


class Cluster:
    """A name server that knows brokers, and peers that note that they were asked."""

    def __init__(self, *brokers: str) -> None:
        self.brokers = list(brokers)
        self.asked: list[str] = []
        self.is_away = False

    async def invoke(
        self, address: str, command: RemotingCommand, *, timeout_ms: int
    ) -> RemotingCommand:
        self.asked.append(address)
        if address == NAME_SERVER and self.is_away:
            raise ConnectFailed(address, "away")
        info = ClusterInfo({"b": BrokerData("c", "b", dict(enumerate(self.brokers)))})
        return answer(command, ResponseCode.SUCCESS, body=encode_body(info))

    async def invoke_oneway(self, address: str, command: RemotingCommand) -> None:
        self.asked.append(address)


def run(cluster: Cluster, work: Callable[[KnownHosts], Any]) -> None:
    async def main() -> None:
        await work(KnownHosts(cluster, ClientOptions((NAME_SERVER,))))

    asyncio.run(main())


def ask(hosts: KnownHosts, address: str) -> Any:
    command = RemotingCommand(int(Code.GET_BROKER_RUNTIME_INFO))
    return hosts.invoke(address, command, timeout_ms=1_000)


def test_brokers_that_a_name_server_knows_are_asked() -> None:
    cluster = Cluster("10.0.0.1:10911", "10.0.0.2:10911")

    async def work(hosts: KnownHosts) -> None:
        for address in (*cluster.brokers, NAME_SERVER, cluster.brokers[0]):
            await ask(hosts, address)
        await hosts.invoke_oneway(cluster.brokers[1], RemotingCommand(0))

    run(cluster, work)
    assert cluster.asked.count(NAME_SERVER) == 2
    assert cluster.asked[-1] == "10.0.0.2:10911"


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1:10912", "10.0.0.10:10911", "169.254.169.254:80", "127.0.0.1:22", "", "x", ":1"],
)
def test_another_address_is_not_asked(address: str) -> None:
    cluster = Cluster("10.0.0.1:10911")

    async def work(hosts: KnownHosts) -> None:
        for _ in range(2):
            with pytest.raises(ConnectFailed, match="no name server knows a broker there"):
                await ask(hosts, address)
            with pytest.raises(ConnectFailed):
                await hosts.invoke_oneway(address, RemotingCommand(0))

    run(cluster, work)
    assert {*cluster.asked} == {NAME_SERVER}


def test_what_another_peer_says_of_the_cluster_lets_in_none() -> None:
    cluster = Cluster("10.0.0.1:10911")

    async def work(hosts: KnownHosts) -> None:
        await ask(hosts, "10.0.0.1:10911")
        cluster.brokers.append("6.6.6.6:1")
        command = RemotingCommand(int(Code.GET_BROKER_CLUSTER_INFO))
        await hosts.invoke("10.0.0.1:10911", command, timeout_ms=1_000)
        cluster.is_away = True
        with pytest.raises(ConnectFailed):
            await ask(hosts, "6.6.6.6:1")

    run(cluster, work)
    assert "6.6.6.6:1" not in cluster.asked


def test_a_broker_that_comes_is_asked_and_one_that_went_is_not() -> None:
    cluster = Cluster("10.0.0.1:10911")

    async def work(hosts: KnownHosts) -> None:
        await ask(hosts, "10.0.0.1:10911")
        cluster.brokers = ["10.0.0.2:10911"]
        await ask(hosts, "10.0.0.2:10911")
        cluster.asked.clear()
        with pytest.raises(ConnectFailed):
            await ask(hosts, "10.0.0.1:10911")

    run(cluster, work)
    assert cluster.asked == [NAME_SERVER]


def test_a_name_server_that_is_away_leaves_what_is_known() -> None:
    cluster = Cluster("10.0.0.1:10911")

    async def work(hosts: KnownHosts) -> None:
        await ask(hosts, "10.0.0.1:10911")
        cluster.is_away = True
        await ask(hosts, "10.0.0.1:10911")
        with pytest.raises(ConnectFailed):
            await ask(hosts, "10.0.0.2:10911")

    run(cluster, work)


def test_a_broker_that_is_known_by_its_name_is_asked_by_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster("broker-a:10911", "gone:10911")

    async def resolve(self: Any, host: str, *_: Any, **__: Any) -> list[Any]:
        if host == "gone":
            raise socket.gaierror("no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("10.0.0.5", 0))]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", resolve)

    async def work(hosts: KnownHosts) -> None:
        await ask(hosts, "10.0.0.5:10911")
        for other in ("10.0.0.5:10912", "10.0.0.6:10911", "broker-b:10911"):
            with pytest.raises(ConnectFailed):
                await ask(hosts, other)

    run(cluster, work)


def test_an_admin_is_limited_once_and_says_why() -> None:
    admin = limited(Admin(Cluster(), ClientOptions((NAME_SERVER,))))
    assert limited(admin) is admin
    with pytest.raises(ClientError, match="no name server knows a broker there"):
        asyncio.run(admin.configuration("6.6.6.6:1"))


@contextmanager
def trap() -> Iterator[tuple[int, "queue.SimpleQueue[str]"]]:
    """Yield a port of this host, and what connects to it."""
    came: queue.SimpleQueue[str] = queue.SimpleQueue()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(0.1)
        ends = threading.Event()

        def accept() -> None:
            while not ends.is_set():
                try:
                    peer, address = listening.accept()
                except TimeoutError:
                    continue
                came.put(str(address))
                peer.close()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listening.getsockname()[1], came
        finally:
            ends.set()
            thread.join()


def test_no_page_and_no_action_leads_to_another_host(console: Serving) -> None:
    browser = console.browser
    token = browser.token("/do/create-topic?topic=x&cluster=DefaultCluster&queues=1")
    with trap() as (port, came):
        address = f"127.0.0.1:{port}"
        message_id = create_message_id("127.0.0.1", port, 0)
        named = {"id": message_id, "broker": address, "address": address, "client": "c@1"}
        named |= {"register": f"etcd://{address}", "queue": "0", "offset": "0"}
        [reading] = console.console.reader.shown.brokers
        pairs = product(ACTIONS.values(), (address, reading.name))
        for action, named["broker"] in pairs:
            fields = {x.name: named.get(x.name, x.value or "T") for x in action.fields}
            typed = fields.get(action.typed, "")
            asked = {"token": token, **fields, "typed": typed}
            assert browser.get(f"/do/{action.name}?{urlencode(fields)}").status < 500
            assert browser.post(f"/do/{action.name}", asked).status < 500, action.name
        for row in PAGES:
            for value in (message_id, quote(address, safe="")):
                path = re.sub(r"\{[^}]+\}", value, row.path)
                assert browser.status(f"{path}?{urlencode(named)}") != 500, path
        browser.get(f"/messages/{message_id}/body")
        assert came.empty()
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            assert came.get(timeout=5)  # the trap works
