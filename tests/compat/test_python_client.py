"""The Python producer at 4.9.3's broker and at ours, and Java's consumers of what it sends."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.compat.clusters import STARTERS, Cluster
from tests.compat.driver import JavaDriver, bodies
from wakelog.client import (
    Message,
    NoReply,
    NotAcknowledged,
    Producer,
    ReceivedMessage,
    TransactionState,
    sync,
)
from wakelog.client.broker_calls import open_calls
from wakelog.client.options import make_options
from wakelog.client.trace_notes import read_notes
from wakelog.protocol.names import TRACE_TOPIC

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.daily("in turn")]

Result = TypeVar("Result")

CONSUMED_MS_MAX = 60_000
ACCOUNTS = """
accounts:
- {accessKey: producer, secretKey: producer-secret, topicPerms: [T=PUB|SUB]}
"""
ACCOUNT = {"access_key": "producer", "secret_key": "producer-secret"}
NO_MESSAGE = 208
POLL_SECONDS = 0.1


def produce(
    cluster: Cluster, work: Callable[[Producer], Awaitable[Result]], **settings: Any
) -> Result:
    async def main() -> Result:
        given = {"group": "python", "timeout": timedelta(seconds=20), **settings}
        async with Producer(cluster.name_server, **given) as producer:
            return await work(producer)

    return asyncio.run(main())


def consume(driver: JavaDriver, topic: str, count: int) -> list[dict[str, Any]]:
    """Return what a Java consumer of the topic gets."""
    driver("consume", name=topic, group=f"group_{topic}", topics=[topic])
    got = driver("consumed", name=topic, count=count, timeoutMs=CONSUMED_MS_MAX)
    driver("stopConsuming", name=topic)
    return list(got)


def test_java_consumes_all_that_python_sends(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    async def work(producer: Producer) -> dict[bytes, str]:
        large = b"x" * 5_000
        receipts = {
            b"one": await producer.send(topic, b"one", tags="t", keys=["k1", "k2"], flag=3),
            "zwölf".encode(): await producer.send(topic, "zwölf", properties={"ä": "ö"}),
            large: await producer.send(topic, large),
            b"later": await producer.send(topic, b"later", delay=timedelta(milliseconds=900)),
        }
        numbers = [b"%d" % n for n in range(300)]
        many = await producer.send_many(Message(topic, number, tags="b") for number in numbers)
        receipts |= dict(zip(numbers, many, strict=True))
        at_once = [b"a%d" % n for n in range(300)]
        gathered = await asyncio.gather(*[producer.send(topic, body) for body in at_once])
        receipts |= dict(zip(at_once, gathered, strict=True))
        await producer.send_oneway(Message(topic, b"one way"))
        return {body: receipt.message_id for body, receipt in receipts.items()}

    ids = produce(cluster, work)
    got = consume(driver, topic, len(ids) + 1)
    received = dict(zip(bodies(got), got, strict=True))
    assert {body: each["msgId"] for body, each in received.items() if body in ids} == ids
    assert received.keys() - ids.keys() == {b"one way"}
    one = received[b"one"]
    assert (one["tags"], one["keys"], one["flag"]) == ("t", "k1 k2", 3)
    assert received["zwölf".encode()]["properties"]["ä"] == "ö"
    assert received[b"7"]["tags"] == "b"
    late = received[b"later"]
    assert late["storeTimestamp"] - late["bornTimestamp"] >= 900


def test_messages_of_a_key_are_in_one_queue_in_order(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    async def work(producer: Producer) -> None:
        keys = [f"order-{number}" for number in range(5)]
        await asyncio.gather(
            *[
                producer.send(topic, f"{key} {n}", sharding_key=key)
                for n in range(20)
                for key in keys
            ]
        )

    produce(cluster, work)
    got = consume(driver, topic, 100)
    places: dict[str, list[tuple[int, int, int]]] = {}
    for body, each in zip(bodies(got), got, strict=True):
        key, number = body.decode().split()
        places.setdefault(key, []).append((each["queueId"], each["queueOffset"], int(number)))
    for each_key in places.values():
        assert len({queue_id for queue_id, _, _ in each_key}) == 1
        assert [number for _, _, number in sorted(each_key)] == list(range(20))


def test_java_consumes_what_was_committed_only(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    async def work(producer: Producer) -> None:
        async with producer.transaction(topic, b"committed"):
            pass
        with pytest.raises(KeyError):
            async with producer.transaction(topic, b"rolled back"):
                raise KeyError
        await producer.send(topic, b"after")

    produce(cluster, work)
    assert sorted(bodies(consume(driver, topic, 2))) == [b"after", b"committed"]


def test_java_replies_to_a_request(cluster: Cluster, driver: JavaDriver, topic: str) -> None:
    driver("answerRequests", group=f"group_{topic}", topic=topic)

    async def work(producer: Producer) -> ReceivedMessage:
        with pytest.raises(NoReply):
            await producer.request("no_consumer", b"x", timeout=timedelta(milliseconds=100))
        return await producer.request(topic, "hello", timeout=timedelta(seconds=20))

    reply = produce(cluster, work)
    assert (reply.body, reply.topic) == (b"HELLO", "DefaultCluster_REPLY_TOPIC")


def test_it_sends_without_asyncio(cluster: Cluster, driver: JavaDriver, topic: str) -> None:
    timeout = timedelta(seconds=20)
    with sync.Producer(cluster.name_server, timeout=timeout, trace=True) as producer:
        sent = producer.send(topic, b"sent")
        with producer.transaction(topic, b"committed"):
            pass
    got = consume(driver, topic, 2)
    assert sorted(bodies(got)) == [b"committed", b"sent"]
    assert sent.message_id in {each["msgId"] for each in got}
    window = {"begin": 0, "end": int(time.time() * 1000) + 60_000, "countMax": 32}
    place = {"topic": TRACE_TOPIC, "key": sent.message_id}
    [trace] = driver.once_there(NO_MESSAGE, "queryByKey", **place, **window)
    noted = list(read_notes(bodies([trace])[0].decode()))
    assert sent.message_id in {note.message_id for note in noted if note.is_success}


@pytest.fixture(
    scope="module", params=[pytest.param("real", marks=pytest.mark.long), "notifications"]
)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Start a broker with accounts, which soon asks about open transactions."""
    folder: Path = tmp_path_factory.mktemp(f"guarded-{request.param}")
    accounts = folder / "broker" / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text(ACCOUNTS)
    settings = {
        "aclEnable": "true",
        "rocketmqHome": str(folder / "broker"),
        "transactionCheckInterval": "500",
        "transactionTimeOut": "500",
    }
    with STARTERS[request.param](folder, settings=settings) as started:
        yield started


@pytest.mark.parametrize(
    ("settings", "topic"),
    [({}, "T"), ({**ACCOUNT, "secret_key": "guessed"}, "T"), (ACCOUNT, "forbidden")],
)
def test_an_account_that_may_not_send_gets_one_clear_error(
    guarded: Cluster, settings: dict[str, str], topic: str
) -> None:
    with pytest.raises(NotAcknowledged, match="Check the access key and the secret key") as caught:
        produce(guarded, lambda producer: producer.send(topic, b"x"), **settings)
    assert (caught.value.code, caught.value.broker) == (1, "broker-a")


def test_the_check_of_another_producer_ends_an_open_transaction(guarded: Cluster) -> None:
    checked: list[bytes] = []

    async def check(message: ReceivedMessage) -> TransactionState:
        checked.append(message.body)
        is_first = checked.count(message.body) == 1
        return TransactionState.UNKNOWN if is_first else TransactionState.COMMIT

    async def leave_open(producer: Producer) -> None:
        async with producer.transaction("T", b"open") as transaction:
            transaction.state = TransactionState.UNKNOWN

    async def wait_for_commit(producer: Producer) -> None:
        queues = await producer.queues("T")
        options = make_options(guarded.name_server, "python", ACCOUNT)  # type: ignore[arg-type]
        async with open_calls(options) as calls:
            while not sum([await calls.max_offset(queue) for queue in queues]):
                await asyncio.sleep(POLL_SECONDS)

    produce(guarded, leave_open, **ACCOUNT)
    produce(guarded, wait_for_commit, check=check, **ACCOUNT)
    assert checked.count(b"open") >= 2
