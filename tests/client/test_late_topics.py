"""A consumer that starts before its topics are there."""

import asyncio
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.client.clusters import messages
from tests.client.group_cluster import two_queues
from tests.client.test_consumer import get, run
from tests.fakes.records import record
from tests.fakes.skipped_time import run_skipping
from wakelog.client.clocks import wall_ms
from wakelog.client.consumer import Consumer
from wakelog.client.errors import ClientError
from wakelog.client.group_calls import GroupCalls
from wakelog.client.late_topics import meet_topics
from wakelog.protocol.bodies import SubscriptionData
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand


def test_a_topic_that_comes_later_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    cluster = two_queues()

    async def read_later(consumer: Consumer) -> None:
        assert await consumer.fetch(1, 0.0) == []
        cluster.add(("a", "U", 0), messages(2, topic="U"))
        [first, second] = await get(consumer, 2)
        assert (first.topic, first.queue_offset, second.queue_offset) == ("U", 0, 1)
        await consumer.ack(first, second)

    run(cluster, read_later, topics="U", start="first")
    said = [line for line in caplog.messages if "topic U" in line]
    assert said == ["no name server knows topic U yet: it is read from when it is there"]


def test_a_late_topic_is_read_from_what_came_since_the_start(tmp_path: Path) -> None:
    """Offsets in a file: no broker says where this group begins."""
    cluster = two_queues()
    old, *new = (
        record(n, topic="U", queue_offset=n, body=b"%d" % n, store_timestamp_ms=wall_ms() + ms)
        for n, ms in enumerate((-60_000, 60_000, 60_000))
    )

    async def read_later(consumer: Consumer) -> None:
        cluster.add(("a", "U", 0), [old, *new])
        assert [message.body for message in await get(consumer, 2)] == [b"1", b"2"]

    run(cluster, read_later, topics="U", start="last", broadcast=True, offset_folder=tmp_path)


def test_a_start_waits_for_its_topics_as_long_as_it_may() -> None:
    cluster = two_queues()
    asked: list[str] = []

    def come(address: str, command: RemotingCommand) -> None:
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            asked.append(command.ext_fields["topic"])
            if asked.count("U") == 2:
                cluster.queues["a", "U", 0] = messages(1, topic="U")

    async def read(consumer: Consumer) -> None:
        assert [queue.topic for queue in consumer.assignment] == ["U"]

    cluster.fail = come
    run(cluster, read, topics="U", start_timeout=timedelta(seconds=10))


FILTER = SubscriptionData(topic="T", sub_string="a > 1", expression_type="SQL92")
NO_ANSWER = ClientError("a does not answer", "Wait")
REFUSED = ClientError("a refuses", "Change it", code=int(ResponseCode.SUBSCRIPTION_PARSE_FAILED))


@pytest.mark.parametrize(
    ("comes_at", "seconds_max", "asked_at"),
    [
        (0, None, [0]),
        (0, 0.0, [0]),
        (9, None, [0]),
        (9, 0.0, [0, "late"]),
        (1, 1.0, [0, 1]),
        (2.5, 2.5, [0, 1, 2, 2.5]),
        (2.6, 2.5, [0, 1, 2, 2.5, "late"]),
        (9, 2.0, [0, 1, 2, "late"]),
    ],
)
def test_a_topic_is_asked_for_once_a_second_until_the_end(
    comes_at: float, seconds_max: float | None, asked_at: list[float | str]
) -> None:
    found: list[float | str] = []

    async def queues(_topic: str) -> list[MessageQueue] | None:
        now = asyncio.get_running_loop().time()
        found.append(now)
        return [MessageQueue("T", "a", 0)] if now >= comes_at else None

    async def meet() -> list[str]:
        calls = cast(GroupCalls, SimpleNamespace(queues=queues))
        return await meet_topics(calls, {"N%T": SubscriptionData(topic="T")}, "N", seconds_max)

    try:
        assert run_skipping(meet) == (["N%T"] if comes_at else [])
    except ClientError as error:
        assert error.cause == "no name server knows topic T"
        found.append("late")
    assert found == asked_at


@pytest.mark.parametrize("failure", [None, NO_ANSWER, REFUSED])
@pytest.mark.parametrize("subscription", [FILTER, SubscriptionData(topic="T", sub_string="a || b")])
def test_each_broker_of_a_topic_is_asked_about_a_filter(
    subscription: SubscriptionData, failure: ClientError | None, caplog: pytest.LogCaptureFixture
) -> None:
    """One that refuses ends the start; one that does not answer may accept it later."""
    asked: list[tuple[str, SubscriptionData]] = []

    async def queues(_topic: str) -> list[MessageQueue]:
        return [MessageQueue("T", name, 0) for name in ("b", "a", "b")]

    async def check(broker: str, given: SubscriptionData) -> None:
        asked.append((broker, given))
        if failure is not None and broker == "a":
            raise failure

    async def meet() -> list[str]:
        calls = cast(GroupCalls, SimpleNamespace(queues=queues, check=check))
        return await meet_topics(calls, {"T": subscription}, "", None)

    has_filter = subscription is FILTER
    if has_filter and failure is REFUSED:
        with pytest.raises(ClientError, match="a refuses"):
            run_skipping(meet)
    else:
        assert run_skipping(meet) == []
    brokers = ["a"] if failure is REFUSED else ["a", "b"]
    assert asked == [(name, FILTER) for name in brokers if has_filter]
    assert ("not checked" in caplog.text) is (has_filter and failure is NO_ANSWER)
