"""A client instance: its heartbeats, its farewell, and the questions of brokers."""

import asyncio

import pytest

from tests.client.clusters import NAME_SERVER, FakeCluster, instance_of
from wakelog.client.errors import ClientError
from wakelog.client.instance import HEARTBEAT_SECONDS, ClientInstance
from wakelog.client.options import ClientOptions
from wakelog.client.producer import Producer
from wakelog.protocol.bodies import ConsumerData, HeartbeatData
from wakelog.protocol.body_codec import decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer


def instance(cluster: FakeCluster, **fields: object) -> ClientInstance:
    """Return an instance whose pauses a test ends by `release`."""

    async def pause(seconds: float) -> None:
        assert seconds == HEARTBEAT_SECONDS
        await asyncio.Event().wait()

    made = ClientInstance(ClientOptions((NAME_SERVER,)), connect=lambda _: cluster, pause=pause)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_a_refusal_is_forgotten_by_the_next_heartbeat(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        cluster = FakeCluster(routes={"T": {"a": 1}})
        instance = instance_of(cluster)(ClientOptions((NAME_SERVER,)))
        instance.producer_group = "g"
        await instance.routes.writable("T")
        refusal = "AclException: No accessKey"
        cluster.fail = lambda _, command: answer(command, ResponseCode.SYSTEM_ERROR, refusal)
        await instance.heartbeat()
        assert "a heartbeat with 1 (SYSTEM_ERROR)" in str(instance.refusals["a:10911"])
        cluster.fail = lambda *_: None
        await instance.heartbeat()
        assert not instance.refusals

    asyncio.run(run())
    assert caplog.messages == [
        "a:10911 answered 1: AclException: No accessKey",
        "a:10911 works again, after 1 failures in 0 s",
    ]


def test_every_broker_of_a_topic_in_use_hears_of_the_groups() -> None:
    async def run() -> None:
        cluster = FakeCluster(routes={"T": {"a": 1, "b": 1}, "U": {"c": 1}})
        data = ConsumerData("readers")
        async with instance(cluster, producer_group="writers", consumers=lambda: [data]) as client:
            await client.routes.find("T")
            await client.heartbeat()
            assert sorted(broker for broker, _ in cluster.clients) == ["a", "b"]
            heartbeat = decode_body(HeartbeatData, cluster.clients[0][1].body)
            assert heartbeat.client_id == client.client_id
            assert [each.group_name for each in heartbeat.producer_data_set] == ["writers"]
            assert [each.group_name for each in heartbeat.consumer_data_set] == ["readers"]
            cluster.clients.clear()
        farewells = [command for broker, command in cluster.clients if broker == "a"]
        assert [command.code for command in farewells] == [RequestCode.UNREGISTER_CLIENT] * 2
        assert farewells[0].ext_fields["producerGroup"] == "writers"
        assert farewells[1].ext_fields["consumerGroup"] == "readers"

    asyncio.run(run())


def test_a_broker_that_is_away_keeps_no_other_from_its_heartbeat() -> None:
    async def run() -> None:
        cluster = FakeCluster(routes={"T": {"a": 1, "b": 1}})
        async with instance(cluster, producer_group="writers") as client:
            await client.routes.find("T")
            cluster.refuse("a:10911")
            await client.heartbeat()
            assert [broker for broker, _ in cluster.clients] == ["b"]

    asyncio.run(run())


def test_it_does_not_start_without_a_name_server() -> None:
    cluster = FakeCluster()
    cluster.refuse(NAME_SERVER)

    async def run() -> None:
        async with instance(cluster):
            raise AssertionError("it has started")

    with pytest.raises(ClientError, match=r"no name server gave .*: Connection refused"):
        asyncio.run(run())


def test_questions_are_answered_by_code_and_others_refused() -> None:
    async def pong(address: str, request: RemotingCommand) -> RemotingCommand:
        return answer(request, ResponseCode.SUCCESS, address)

    async def fail(address: str, request: RemotingCommand) -> RemotingCommand:
        raise ValueError("broken")

    async def run() -> None:
        client = instance(FakeCluster(), answers={40: pong, 39: fail})
        found = await client.answer("a:1", RemotingCommand(40))
        assert found is not None and found.remark == "a:1"
        found = await client.answer("a:1", RemotingCommand(220))
        assert found is not None and found.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        with pytest.raises(ValueError, match="broken"):
            await client.answer("a:1", RemotingCommand(39))

    asyncio.run(run())


def test_a_new_connection_to_a_broker_begins_with_a_heartbeat() -> None:
    async def run() -> None:
        cluster = FakeCluster(routes={"T": {"a": 1}})
        async with instance(cluster, producer_group="writers") as client:
            client.reopened("a:10911")  # which has not heard of this client, and need not yet
            await client.routes.find("T")
            await client.heartbeat()
            client.reopened("a:10911")
            await asyncio.sleep(0)
            codes = [command.code for _, command in cluster.clients]
            assert codes == [RequestCode.HEART_BEAT] * 2

    asyncio.run(run())


def test_a_broker_that_leads_now_hears_of_the_client_with_its_connection() -> None:
    async def run() -> None:
        cluster = FakeCluster(routes={"T": {"a": 1}})
        async with instance(cluster, producer_group="writers") as client:
            await client.routes.find("T")
            await client.heartbeat()
            cluster.addresses["a"] = {0: "a:20911", 1: "a:10911"}
            client.reopened("a:20911")  # as far as is known, it does not lead
            await client.routes.find("T")
            client.reopened("a:20911")
            client.reopened("names:9876")
            await asyncio.sleep(0)
            hearts = [address for address, code in cluster.asked if code == RequestCode.HEART_BEAT]
            assert hearts == ["a:10911", "a:20911"]

    asyncio.run(run())


def test_a_connection_that_a_heartbeat_makes_begins_with_one_heartbeat() -> None:
    async def run() -> None:
        cluster = FakeCluster(routes={"T": {"a": 1}, "U": {"b": 1}})
        async with instance(cluster, producer_group="writers") as client:
            await client.routes.find("T")
            await client.heartbeat()
            await client.routes.find("U")
            opened = list[str]()

            def connect(address: str, command: RemotingCommand) -> None:
                if address == "b:10911" and not opened:
                    opened.append(address)
                    client.reopened(address)

            cluster.fail = connect
            await client.heartbeat()
            await asyncio.sleep(0)
            assert sorted(broker for broker, _ in cluster.clients) == ["a", "a", "b"]

    asyncio.run(run())


def test_a_client_that_leaves_introduces_itself_on_no_new_connection() -> None:
    async def run() -> None:
        cluster = FakeCluster(routes={"T": {"a": 1}, "U": {"b": 1}})
        async with instance(cluster, producer_group="writers") as client:
            for topic in ("T", "U"):
                await client.routes.find(topic)
            await client.heartbeat()

            def connect(address: str, command: RemotingCommand) -> None:
                client.reopened("b:10911" if address == "a:10911" else "a:10911")

            cluster.fail = connect
        await asyncio.sleep(0)
        codes = [command.code for _, command in cluster.clients]
        assert codes == [RequestCode.HEART_BEAT] * 2 + [RequestCode.UNREGISTER_CLIENT] * 2

    asyncio.run(run())


def test_a_block_inside_of_its_own_block_leaves_the_client_open() -> None:
    async def run() -> None:
        cluster = FakeCluster(routes={"T": {"a": 1}})
        async with Producer(NAME_SERVER, connect=instance_of(cluster)) as producer:
            with pytest.raises(ClientError, match="is open already"):
                async with producer:
                    raise AssertionError("it has started twice")
            assert (await producer.send("T", b"1")).broker == "a"
        farewells = len(cluster.clients)
        with pytest.raises(ClientError, match="was closed"):
            async with producer:
                raise AssertionError("it has started again")
        await producer.close()
        assert len(cluster.clients) == farewells

    asyncio.run(run())
