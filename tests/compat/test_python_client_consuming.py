"""The Python consumer at 4.9.3's broker and at ours, alone and in one group with Java's."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver, message
from tests.compat.mixed_group import SETTLE_SECONDS_MAX, numbers_of, take
from wakelog.client import Consumer

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.daily("in turn")]

SETTLE_MS_MAX = 60_000


def consume(
    cluster: Cluster, topic: str, work: Callable[[Consumer], Awaitable[None]], **settings: Any
) -> None:
    async def main() -> None:
        given = {"group": f"group_{topic}", "topics": topic, "start": "first", **settings}
        async with Consumer(cluster.name_server, timeout=timedelta(seconds=20), **given) as one:
            async with asyncio.timeout(SETTLE_SECONDS_MAX * 2):
                await work(one)

    asyncio.run(main())


def send(driver: JavaDriver, topic: str, numbers: Sequence[int], **fields: Any) -> list[str]:
    numbered = [message(topic, b"%d" % n, **fields) for n in numbers]
    return [each["msgId"] for each in driver("send", group="g", messages=numbered)]


def test_python_consumes_what_java_sends(cluster: Cluster, driver: JavaDriver, topic: str) -> None:
    ids = send(driver, topic, range(40), tags="A", keys="k1 k2", properties={"x": "y"})
    large = b"x" * 20_000  # which Java's producer compresses
    driver("send", group="g", messages=[message(topic, large)])

    async def first(consumer: Consumer) -> None:
        found = await take(consumer, 41)
        [big] = [each for each in found if each.body == large]
        assert big.record.body != large
        found.remove(big)
        assert sorted(each.message_id for each in found) == sorted(ids)
        assert {(each.tags, *each.keys, each.properties["x"]) for each in found} == {
            ("A", "k1", "k2", "y")
        }
        assert sum((await consumer.lag()).values()) == 0

    async def second(consumer: Consumer) -> None:
        assert numbers_of(await take(consumer, 3)) == [100, 101, 102]
        queue = consumer.assignment[0]
        end = consumer.position(queue)
        await consumer.seek(queue, datetime(2001, 1, 1, tzinfo=UTC))
        again = await take(consumer, end)
        assert [each.queue_offset for each in again] == list(range(end))
        await consumer.seek(queue, end - 1)
        assert [each.queue_offset for each in await take(consumer, 1)] == [end - 1]

    consume(cluster, topic, first)
    send(driver, topic, range(100, 103))
    consume(cluster, topic, second)


def test_what_fails_is_consumed_again_and_then_a_dead_letter(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    [message_id] = send(driver, topic, [7])

    async def work(consumer: Consumer) -> None:
        for times in range(3):
            [each] = await take(consumer, 1, is_acknowledged=False)
            assert (each.topic, each.reconsume_times, each.message_id) == (topic, times, message_id)
            await each.nack(timedelta(seconds=1) if times else None)
        assert await consumer.fetch(1, 0.1) == []

    consume(cluster, topic, work, max_retries=2)
    place = {"topic": f"%DLQ%group_{topic}", "broker": cluster.broker_name, "queueId": 0}
    pulled = driver.once_there(17, "pullBlocking", **place, offset=0, countMax=1)
    [dead] = pulled["messages"]
    assert (dead["msgId"], dead["properties"]["RETRY_TOPIC"]) == (message_id, topic)


def test_a_broadcast_reaches_every_python_consumer(
    cluster: Cluster, driver: JavaDriver, topic: str, tmp_path: Path
) -> None:
    send(driver, topic, range(6))
    settings = {"broadcast": True, "group": f"cast_{topic}"}

    async def work(consumer: Consumer) -> None:
        assert numbers_of(await take(consumer, 6)) == list(range(6))

    async def work_after(consumer: Consumer) -> None:
        assert await consumer.fetch(1, 0.5) == []

    for name in ("first", "second"):
        consume(cluster, topic, work, **settings, offset_folder=tmp_path / name)
    consume(cluster, topic, work_after, **settings, offset_folder=tmp_path / "first")


def test_operators_see_a_python_consumer_and_reset_it(
    cluster: Cluster, driver: JavaDriver, topic: str
) -> None:
    send(driver, topic, range(8))
    group = f"group_{topic}"
    place = {"group": group, "topic": topic}

    async def work(consumer: Consumer) -> None:
        found = await take(consumer, 8)
        await consumer.commit()
        listed = await asyncio.to_thread(driver.once_there, 17, "consumers", group=group)
        (client,) = listed["connectionSet"]
        assert client["language"] == "PYTHON"
        asked = {"group": group, "client": client["clientId"]}
        info = await asyncio.to_thread(driver, "runningInfo", **asked, stack=True)
        assert (info["type"], info["hasStack"]) == ("CONSUME_PASSIVELY", True)
        assert info["queues"] >= 4
        status = await asyncio.to_thread(driver, "status", **place)
        assert sum(status[client["clientId"]].values()) == 8

        directly = asyncio.create_task(
            asyncio.to_thread(
                driver, "consumeDirectly", **asked, messageId=found[0].offset_message_id
            )
        )
        [again] = await take(consumer, 1)
        assert again.body == found[0].body
        assert (await directly)["consumeResult"] == "CR_SUCCESS"

        long_ago = int(time.time() * 1000) - 3_600_000
        reset = await asyncio.to_thread(
            driver, "resetOffset", **place, timestamp=long_ago, force=True
        )
        assert reset == {str(queue_id): 0 for queue_id in range(4)}
        assert numbers_of(await take(consumer, 8)) == list(range(8))

    consume(cluster, topic, work)


def test_python_replies_to_a_java_client(cluster: Cluster, driver: JavaDriver, topic: str) -> None:
    async def work(consumer: Consumer) -> None:
        asked = {"group": "asking_python", "topic": topic, "body": "hello", "timeoutMs": 20_000}
        asking = asyncio.create_task(asyncio.to_thread(driver, "ask", **asked))
        [request] = await take(consumer, 1)
        await request.reply(request.body.upper())
        assert (await asking)["body"] == "HELLO"

    consume(cluster, topic, work)
