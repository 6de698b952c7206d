"""What waits for a registration, against a name server that answers and one that hangs."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest import mock

import pytest

from tests.actors.bounded import run
from tests.actors.test_name_server import HOST, PATH, Peer, make_service, route
from tests.broker.harness import Harness
from tests.fakes.memory_file_system import MemoryFileSystem
from tests.nameserver.harness import Announced
from wakelog.actors.broker import name_servers
from wakelog.actors.broker.name_servers import NameServers
from wakelog.actors.broker.replica import (
    REGISTER_EVERY_MS,
    REGISTER_OFTEN_MS,
    TICK_SECONDS,
    Replica,
)
from wakelog.actors.errors import DeploymentFailed
from wakelog.broker import registration
from wakelog.network.client import RemotingClient
from wakelog.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    TopicConfig,
    TopicRouteData,
    decode_body,
)
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request

pytestmark = pytest.mark.process


@asynccontextmanager
async def registered(harness: Harness) -> AsyncIterator[tuple[NameServers, Peer]]:
    """Register a broker with a name server of its own."""
    service = await make_service(PATH, MemoryFileSystem())
    harness.settings.broker.namesrv_addr = f"{HOST}:{service.port}"
    servers = NameServers(harness.broker.state, RemotingClient())
    await servers.register(seconds_max=5.0)
    async with Peer(service) as client:
        yield servers, client
        await servers.close()
        await service.stop()


async def settle(servers: NameServers, *topics: str) -> None:
    """Register topics, or all without one, and wait for it."""
    reported = asyncio.Event()
    servers.register_soon(topics)
    servers.after_registration(reported.set)
    await reported.wait()


async def permission(client: Peer, topic: str) -> int:
    response = await client.ask(route(topic))
    assert response.code == ResponseCode.SUCCESS, topic
    (queues,) = decode_body(TopicRouteData, response.body).queue_datas
    return queues.perm


def wipe() -> RemotingCommand:
    fields = {"brokerName": "broker-a"}
    return make_request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, fields, opaque=1)


def test_what_waits_for_a_registration_comes_after_it() -> None:
    harness = Harness()

    async def main() -> None:
        async with registered(harness) as (servers, client):
            assert (await client.ask(route())).code == ResponseCode.TOPIC_NOT_EXIST
            harness.send("T")
            counts = {"name_servers_count": 1, "registered_count": 1, "failed_count": 0}
            assert servers.statistics() == counts
            await settle(servers, "T")
            assert (await client.ask(route())).code == ResponseCode.SUCCESS
            assert servers.statistics() == counts | {"registered_count": 2}

    run(main)


def test_a_new_topic_leaves_the_others_as_the_name_server_has_them() -> None:
    """4.9.3 registers it alone as well: permissions that were wiped stay so."""
    harness = Harness()

    async def main() -> None:
        harness.send("old")
        async with registered(harness) as (servers, client):
            assert (await client.ask(wipe())).ext_fields["wipeTopicCount"] != "0"
            harness.send("new")
            await settle(servers, "new")
            assert (await permission(client, "old"), await permission(client, "new")) == (4, 6)
            await settle(servers)  # the period's registration has the same version
            assert await permission(client, "old") == 4

    run(main)


def test_topics_of_one_version_that_go_out_one_after_the_other_all_have_routes() -> None:
    """They are created beside each other, and saved in turns."""
    harness = Harness()

    async def main() -> None:
        async with registered(harness) as (servers, client):
            for topic in ("first", "second"):
                harness.send(topic)
            for topic in ("first", "second"):
                await settle(servers, topic)
                assert await permission(client, topic) == 6

    run(main)


def test_a_new_topic_after_a_name_server_was_restarted_brings_all_the_others() -> None:
    """4.9.3 sends the new one alone, and the name server never gets the rest."""
    harness = Harness()
    harness.send("old")

    async def main() -> None:
        first = await make_service(PATH, MemoryFileSystem())
        harness.settings.broker.namesrv_addr = f"{HOST}:{first.port}"
        servers = NameServers(harness.broker.state, RemotingClient())
        await servers.register(seconds_max=5.0)
        await first.stop()
        second = await make_service(PATH, MemoryFileSystem(), port=first.port)
        harness.send("new")
        await settle(servers, "new")
        async with Peer(second) as client:
            assert (await permission(client, "old"), await permission(client, "new")) == (6, 6)
            await servers.close()
        await second.stop()

    run(main)


def test_a_large_table_is_taken_in_parts_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness()
    monkeypatch.setattr(registration, "TOPICS_PER_REQUEST_MAX", 4)
    topics = [f"T{number}" for number in range(10)]

    async def main() -> None:
        for topic in topics:
            harness.send(topic)
        async with registered(harness) as (servers, client):
            assert [await permission(client, topic) for topic in topics] == [6] * 10
            await client.ask(wipe())
            await settle(servers)
            assert [await permission(client, topic) for topic in topics] == [4] * 10
            harness.broker.state.topics.next_version(harness.now_ms)
            await settle(servers)
            assert [await permission(client, topic) for topic in topics] == [6] * 10

    run(main)


def test_a_send_does_not_wait_long_for_a_name_server_that_hangs() -> None:
    async def main() -> None:
        silent = socket.create_server((HOST, 0))  # whose kernel connects, and nobody answers
        harness = Harness(namesrvAddr=f"{HOST}:{silent.getsockname()[1]}")
        servers = NameServers(harness.broker.state, RemotingClient())
        # The first is under way, and is not answered for 6 s.
        servers.register_soon()
        await asyncio.sleep(0)
        calls: list[None] = []
        reported = asyncio.Event()

        def done() -> None:
            calls.append(None)
            reported.set()

        servers.after_registration(done, seconds_max=0.01)
        await reported.wait()
        await servers.close()
        assert len(calls) == 1
        silent.close()

    run(main)


def test_no_further_topic_waits_for_a_name_server_that_hangs() -> None:
    async def main() -> None:
        silent = socket.create_server((HOST, 0))
        harness = Harness(
            namesrvAddr=f"{HOST}:{silent.getsockname()[1]}", registerBrokerTimeoutMills="20"
        )
        servers = NameServers(harness.broker.state, RemotingClient())
        await settle(servers)
        assert servers.statistics()["failed_count"] == 1
        harness.broker.state.config.register_broker_timeout_mills = 60_000
        servers.register_soon(["T"])
        reported = asyncio.Event()
        servers.after_registration(reported.set, seconds_max=60.0)
        await reported.wait()
        assert servers.statistics()["failed_count"] == 1  # the next one is under way
        await servers.close()
        silent.close()

    run(main)


def test_nothing_waits_where_there_is_no_name_server() -> None:
    harness = Harness()

    async def main() -> None:
        servers = NameServers(harness.broker.state, RemotingClient())
        await settle(servers, "T")
        assert servers.statistics()["name_servers_count"] == 0
        await servers.close()

    run(main)


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, "10.0.0.1:10911"),
        ({"brokerIP1": "10.0.0.1"}, None),
        ({"brokerName": "broker-b"}, None),
        ({"namesrvAddr": ""}, None),
    ],
)
def test_a_name_that_another_address_has_is_refused(
    settings: dict[str, str], address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_servers, "TAKEN_NAME_MS_MAX", 100)

    async def main() -> None:
        service = await make_service(PATH, MemoryFileSystem())
        with socket.create_server((HOST, 0)) as silent:
            silent_address = f"{HOST}:{silent.getsockname()[1]}"
            listed = f"{silent_address};{HOST}:{service.port}"
            config = Harness(**{"namesrvAddr": listed, **settings}).settings.broker
            client = RemotingClient()
            async with Peer(service) as broker:
                await broker.ask(Announced().request())
                refused = None
                masters = await name_servers.master_addresses(config, client)
                try:
                    await name_servers.refuse_taken_name(config, client)
                except DeploymentFailed as error:
                    refused = error
            await client.close()
        await service.stop()
        assert (refused is not None) is (address is not None)
        is_known = not {"brokerName", "namesrvAddr"} & settings.keys()
        assert masters == (["10.0.0.1:10911"] if is_known else [])
        if refused is not None:
            assert refused.cause == (
                f"{HOST}:{service.port} has a broker broker-a at {address} already"
            )
            assert "--set wakelog.takeOverName=true" in refused.remedy

    run(main)


@pytest.mark.parametrize(
    ("brokers", "is_found"),
    [
        ({}, False),
        ({"broker-a": [0]}, False),
        ({"broker-a": [0], "broker-b": [0]}, True),
        ({"broker-a": [0], "broker-b": [1]}, False),
        ({"broker-b": [1], "broker-c": [0, 1]}, True),
        ({"elsewhere": [0]}, False),
        ({"unknown": []}, False),
    ],
)
@pytest.mark.parametrize("says", [0, 1])
def test_a_broker_may_drain_if_another_master_of_its_cluster_is_known_somewhere(
    brokers: dict[str, list[int]], is_found: bool, says: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """says: which of two name servers knows brokers; the other one does not answer."""
    clusters = {"DefaultCluster": set(brokers) - {"elsewhere"}, "other": {"elsewhere"}}
    table = {
        name: BrokerData("", name, dict.fromkeys(ids, "h:1"))
        for name, ids in brokers.items()
        if ids
    }

    async def ask(address: str, client: RemotingClient) -> ClusterInfo:
        knows = address.endswith(f":{says + 1}")
        return ClusterInfo(table, clusters) if knows else ClusterInfo({}, {})

    async def main() -> None:
        harness = Harness(namesrvAddr=f"{HOST}:1;{HOST}:2")
        servers = NameServers(harness.broker.state, RemotingClient())
        assert await servers.has_others() is is_found
        await servers.close()

    monkeypatch.setattr(name_servers, "_cluster_info", ask)
    run(main)


def test_an_updated_topic_is_ordered_again_once_it_is_registered() -> None:
    harness = Harness()
    harness.send("T")

    async def main() -> None:
        async with registered(harness) as (servers, client):
            fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"}
            order = make_request(RequestCode.PUT_KV_CONFIG, fields, opaque=1)
            assert (await client.ask(order)).code == ResponseCode.SUCCESS
            harness.broker.state.topics.update(TopicConfig("T", 8, 8), harness.now_ms)
            await settle(servers, "T")
            assert harness.topic("T").order

    run(main)


@pytest.mark.parametrize(
    ("took_ago_ms", "registered_ago_ms", "is_master", "refusal", "registers"),
    [
        (0, REGISTER_EVERY_MS, True, None, True),
        (0, REGISTER_EVERY_MS - 1, True, None, False),
        (REGISTER_OFTEN_MS - 1, REGISTER_EVERY_MS, True, None, True),
        (REGISTER_OFTEN_MS, REGISTER_EVERY_MS, True, None, False),
        (0, REGISTER_EVERY_MS, False, None, False),
        (0, REGISTER_EVERY_MS, True, "no", False),
    ],
)
def test_a_new_master_registers_often(
    took_ago_ms: int,
    registered_ago_ms: int,
    is_master: bool,
    refusal: str | None,
    registers: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_ms = 1_000_000
    monkeypatch.setattr("wakelog.actors.broker.replica.steady_ms", lambda: now_ms)
    replica = mock.Mock(
        _took_ms=now_ms - took_ago_ms, _registered_ms=now_ms - registered_ago_ms, _refusal=refusal
    )
    replica.run.is_master = is_master
    Replica._tick(replica)
    assert bool(replica.service.register.mock_calls) is registers
    assert (replica._registered_ms == now_ms) is registers
    for asked in (replica._check_log, replica._check_space):
        asked.assert_called_once_with(now_ms)
    for end in (replica._server, replica._follower):
        end.drop_silent.assert_called_once_with(now_ms)
    replica._timer.start.assert_called_once_with(TICK_SECONDS)
    replica.act.assert_called_once_with()
