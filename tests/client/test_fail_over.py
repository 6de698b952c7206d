"""Name servers and brokers that fail, slaves, and TLS: what a consumer and a producer do then."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.client.clusters import instance_of, messages
from tests.client.group_cluster import RETRY, GroupCluster
from wakelog.client import ClientError, group_member, sync
from wakelog.client.consumer import Consumer
from wakelog.client.consumer_arguments import Sql
from wakelog.client.producer import Producer
from wakelog.network.errors import CallTimeout, ConnectFailed
from wakelog.network.tls import Tls
from wakelog.protocol.codes import RequestCode
from wakelog.protocol.command import RemotingCommand
from wakelog.testing import EmbeddedBroker

NAME_SERVERS = "n1:9876;n2:9876"
MASTER, SLAVE = "a:10911", "a:20911"
FILES = Path(__file__).parents[1] / "network" / "certificates"
SECONDS_MAX = 30.0


def two_brokers() -> GroupCluster:
    """Return a cluster with one queue of topic T at each of two brokers."""
    queues = {("a", "T", 0): messages(2), ("b", "T", 0): messages(2, first=10)}
    return GroupCluster({**queues, RETRY: [], ("b", "%RETRY%g", 0): []})


def fail_at(cluster: GroupCluster, *addresses: str) -> None:
    """Let nothing listen at these addresses from now on, and everything elsewhere."""

    def fail(address: str, command: RemotingCommand) -> None:
        if address in addresses:
            raise ConnectFailed(address, "Connection refused")

    cluster.fail = fail


def run(cluster: GroupCluster, work: Callable[[Consumer], Awaitable[None]], **more: Any) -> None:
    async def main() -> None:
        given = {"group": "g", "topics": "T", "start": "first", "retries_max": 0, **more}
        async with Consumer(NAME_SERVERS, connect=cluster.join, **given) as consumer:
            async with asyncio.timeout(SECONDS_MAX):
                await work(consumer)

    asyncio.run(main())


async def take(consumer: Consumer, count: int) -> set[int]:
    """Acknowledge so many messages, and return their numbers."""
    found: set[int] = set()
    while len(found) < count:
        for message in await consumer.fetch(count - len(found), 1.0):
            found.add(int(message.body))
            await message.ack()
    return found


def addresses_asked(cluster: GroupCluster, code: RequestCode) -> set[str]:
    return {address for address, asked in cluster.asked if asked == code}


def test_a_consumer_asks_the_name_server_that_answers() -> None:
    cluster = two_brokers()
    fail_at(cluster, "n1:9876")

    async def work(consumer: Consumer) -> None:
        assert await take(consumer, 4) == {0, 1, 10, 11}
        fail_at(cluster, "n2:9876")
        cluster.asked.clear()
        assert len(await consumer.queues("T")) == 2
        routes = RequestCode.GET_ROUTEINFO_BY_TOPIC
        asked = [address for address, code in cluster.asked if code == routes]
        assert asked[:2] == ["n2:9876", "n1:9876"]

    run(cluster, work)


def test_a_consumer_without_a_name_server_goes_on_with_what_it_knows() -> None:
    cluster = two_brokers()

    async def work(consumer: Consumer) -> None:
        assert len(await take(consumer, 4)) == 4
        fail_at(cluster, "n1:9876", "n2:9876")
        cluster.add(("b", "T", 0), messages(1, first=12))
        assert await take(consumer, 1) == {12}

    run(cluster, work)


def test_a_broker_that_fails_holds_up_no_other_and_is_read_when_it_is_back() -> None:
    cluster = two_brokers()

    async def work(consumer: Consumer) -> None:
        assert len(await take(consumer, 4)) == 4
        fail_at(cluster, MASTER)
        cluster.add(("a", "T", 0), messages(1, first=2))
        cluster.add(("b", "T", 0), messages(1, first=12))
        assert await take(consumer, 1) == {12}
        fail_at(cluster)
        assert await take(consumer, 1) == {2}

    run(cluster, work)


def test_a_group_is_shared_by_the_brokers_that_answer() -> None:
    cluster = two_brokers()

    async def work(consumer: Consumer) -> None:
        assert await take(consumer, 2) == {10, 11}
        members = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        assert addresses_asked(cluster, members) == {MASTER, "b:10911"}
        fail_at(cluster)
        assert await take(consumer, 2) == {0, 1}

    for is_ordered in (False, True):
        fail_at(cluster, MASTER)
        cluster.asked.clear()
        cluster.committed.clear()
        run(cluster, work, ordered=is_ordered)


def test_locks_are_renewed_at_the_brokers_that_answer() -> None:
    cluster = two_brokers()

    async def work(consumer: Consumer) -> None:
        assert len(await take(consumer, 4)) == 4
        fail_at(cluster, MASTER)
        cluster.asked.clear()
        await consumer._member.renew_locks()
        assert addresses_asked(cluster, RequestCode.LOCK_BATCH_MQ) == {MASTER, "b:10911"}
        assert len(consumer.assignment) == 2

    run(cluster, work, ordered=True)


def test_a_filter_is_checked_by_the_brokers_that_answer() -> None:
    cluster = two_brokers()
    fail_at(cluster, MASTER)

    async def work(consumer: Consumer) -> None:
        assert addresses_asked(cluster, RequestCode.CHECK_CLIENT_CONFIG) == {MASTER, "b:10911"}

    run(cluster, work, topics={"T": Sql("a > 1")})


def test_a_slave_is_read_when_the_broker_suggests_it_and_nothing_else_is_sent_to_it() -> None:
    cluster = GroupCluster({("a", "T", 0): messages(2), RETRY: []})
    cluster.addresses["a"] = {0: MASTER, 1: SLAVE}
    cluster.suggested = 1

    async def work(consumer: Consumer) -> None:
        assert len(await take(consumer, 2)) == 2
        cluster.add(("a", "T", 0), messages(2, first=2))
        assert await take(consumer, 2) == {2, 3}
        await consumer.commit()
        cluster.suggested = 0
        cluster.add(("a", "T", 0), messages(1, first=4))
        assert await take(consumer, 1) == {4}
        cluster.add(("a", "T", 0), messages(1, first=5))
        assert await take(consumer, 1) == {5}
        pulled_at = [address for address, topic in cluster.pulled_at if topic == "T"]
        assert [address for address, _ in groupby(pulled_at)] == [MASTER, SLAVE, MASTER]

    run(cluster, work)
    at_slave = {code for address, code in cluster.asked if address == SLAVE}
    # A slave answers pulls for those groups only that it knows from heartbeats.
    assert at_slave <= {
        RequestCode.HEART_BEAT, RequestCode.PULL_MESSAGE, RequestCode.UNREGISTER_CLIENT,
    }  # fmt: skip


def test_a_slave_that_fails_is_left_for_the_master() -> None:
    cluster = GroupCluster({("a", "T", 0): messages(2), RETRY: []})
    cluster.addresses["a"] = {0: MASTER, 1: SLAVE}
    cluster.suggested = 1

    async def work(consumer: Consumer) -> None:
        assert len(await take(consumer, 2)) == 2
        fail_at(cluster, SLAVE)
        cluster.suggested = 0
        cluster.add(("a", "T", 0), messages(1, first=2))
        assert await take(consumer, 1) == {2}

    run(cluster, work)


def test_a_slave_is_read_while_there_is_no_master() -> None:
    cluster = GroupCluster({("a", "T", 0): messages(3), RETRY: []})
    cluster.addresses["a"] = {1: SLAVE}
    fail_at(cluster, MASTER)

    async def work(consumer: Consumer) -> None:
        assert await take(consumer, 3) == {0, 1, 2}

    run(cluster, work)
    assert MASTER not in {address for address, _ in cluster.asked}


def test_a_producer_sends_to_the_broker_that_answers() -> None:
    cluster = two_brokers()
    fail_at(cluster, MASTER, "n1:9876")

    async def main() -> None:
        connect = instance_of(cluster)
        async with Producer(NAME_SERVERS, group="g", connect=connect, retries_max=1) as producer:
            for number in range(4):
                await producer.send("T", b"%d" % number)

    asyncio.run(main())
    assert [(broker, body) for broker, _, body in cluster.stored] == [
        ("b", b"%d" % number) for number in range(4)
    ]


@pytest.fixture(scope="module")
def secret() -> Iterator[EmbeddedBroker]:
    """Start a broker that takes connections with TLS, and others for its own calls."""
    settings = {
        "tls.server.mode": "permissive",
        "tls.test.mode.enable": "false",
        "tls.server.certPath": str(FILES / "server.pem"),
        "tls.server.keyPath": str(FILES / "server.key"),
    }
    with EmbeddedBroker(settings=settings) as broker:
        broker.create_topic("secret", queues=1)
        broker.create_topic("cut", queues=1)
        yield broker


def consume_one(broker: EmbeddedBroker, group: str, tls: Tls | bool) -> bytes:
    with sync.Consumer(
        broker.name_server, group=group, topics="secret", start="first", tls=tls
    ) as consumer:
        [message] = consumer.fetch(1, SECONDS_MAX)
        message.ack()
        return message.body


@pytest.mark.process
def test_a_consumer_with_tls_refuses_a_server_that_it_does_not_trust(
    secret: EmbeddedBroker,
) -> None:
    trusting = Tls(str(FILES / "signer.pem"))
    with sync.Producer(secret.name_server, tls=trusting) as producer:
        producer.send("secret", b"encrypted")
    assert consume_one(secret, "trusting", trusting) == b"encrypted"
    assert consume_one(secret, "careless", Tls(checks_server=False)) == b"encrypted"
    with pytest.raises(ClientError, match="certificate"):
        consume_one(secret, "strict", tls=True)


@pytest.mark.process
def test_a_consumer_with_tls_comes_back_after_its_connections_were_cut(
    secret: EmbeddedBroker,
) -> None:
    trusting = Tls(str(FILES / "signer.pem"))
    with (
        sync.Producer(secret.name_server, tls=trusting) as producer,
        sync.Consumer(
            secret.name_server, group="cut", topics="cut", start="first", tls=trusting
        ) as consumer,
    ):
        for body in (b"before", b"after"):
            producer.send("cut", body)
            [message] = consumer.fetch(1, SECONDS_MAX)
            message.ack()
            assert message.body == body
            secret.drop_connections()


def test_what_a_user_asks_for_waits_until_another_broker_leads() -> None:
    cluster = GroupCluster({("a", "T", 0): messages(4), RETRY: []})
    cluster.addresses["a"] = {0: MASTER, 2: SLAVE}
    refused = list[str]()

    def lose_master(address: str, command: RemotingCommand) -> None:
        """Let nothing listen at the master, and the slave lead after three calls."""
        if address == MASTER:
            refused.append(address)
            if len(refused) == 3:
                cluster.addresses["a"] = {0: SLAVE}
            raise ConnectFailed(address, "Connection refused")

    async def work(consumer: Consumer) -> None:
        assert len(await take(consumer, 4)) == 4
        [queue] = consumer.assignment
        for ask in (
            consumer.commit,
            consumer.lag,
            lambda: consumer.seek(queue, "last"),
        ):
            refused.clear()
            cluster.addresses["a"] = {0: MASTER, 2: SLAVE}
            await consumer._instance.routes.refresh()
            cluster.fail = lose_master
            await ask()
            assert len(refused) >= 3
            fail_at(cluster)
        assert cluster.committed["g", "a", "T", 0] == 4

    run(cluster, work, retries_max=2)


def test_attempts_at_a_broker_that_hangs_are_counted_once() -> None:
    cluster, hanging = GroupCluster({("a", "T", 0): messages(4), RETRY: []}), list[RequestCode]()
    invoke, retries_max, timeout = cluster.invoke, 2, timedelta(milliseconds=20)
    offsets = RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.GET_MAX_OFFSET

    async def hang(address: str, command: RemotingCommand, *, timeout_ms: int) -> RemotingCommand:
        if command.code not in offsets or not is_away:
            return await invoke(address, command, timeout_ms=timeout_ms)
        hanging.append(RequestCode(command.code))
        await asyncio.sleep(timeout_ms / 1000)
        raise CallTimeout(address, "no answer")

    cluster.invoke = hang  # type: ignore[method-assign]
    is_away = False

    async def work(consumer: Consumer) -> None:
        nonlocal is_away
        assert len(await take(consumer, 4)) == 4
        [queue] = consumer.assignment
        is_away = True
        calls: list[tuple[Callable[[], Awaitable[object]], int]] = [
            (consumer.commit, 2),  # of its topic, and of the retry topic
            (consumer.lag, 1),
            (lambda: consumer.seek(queue, "last"), 1),
        ]
        for call, queues_count in calls:
            hanging.clear()
            with pytest.raises(ClientError, match="no answer"):
                await call()
            assert len(hanging) == queues_count * (retries_max + 1)
        is_away = False

    run(cluster, work, retries_max=retries_max, timeout=timeout)


def test_a_consumer_that_lost_a_broker_soon_asks_which_broker_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_member, "ROUTES_AGAIN_SECONDS", (0.0, 0.0))
    cluster = GroupCluster({("a", "T", 0): messages(2), RETRY: []})
    cluster.addresses["a"] = {0: MASTER, 2: SLAVE}

    async def work(consumer: Consumer) -> None:
        assert len(await take(consumer, 2)) == 2
        fail_at(cluster, MASTER)
        cluster.change()  # held pulls come back, and the next ones fail
        cluster.addresses["a"] = {0: SLAVE}
        async with asyncio.timeout(SECONDS_MAX):
            while consumer._instance.routes.brokers["a"] != {0: SLAVE}:
                await asyncio.sleep(0.001)

    run(cluster, work)
