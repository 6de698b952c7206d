"""What a sender puts, makes, measures and empties at a broker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.tasks.brokers import broker, wait_for
from wakelog.client import Consumer, InvalidArgument
from wakelog.client.clocks import wall_ms
from wakelog.tasks.due import due_of
from wakelog.tasks.sender import TaskSender
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]
pytestmark = pytest.mark.slow

DELAYED = "SCHEDULE_TOPIC_XXXX"


def with_sender(server: EmbeddedBroker, work: Callable[[TaskSender], Awaitable[None]]) -> None:
    async def run() -> None:
        async with TaskSender(server.name_server, queues=3) as sender:
            await work(sender)

    asyncio.run(run())


def test_a_topic_is_made_once_with_its_queues(broker: EmbeddedBroker) -> None:
    async def work(sender: TaskSender) -> None:
        assert not await sender.exists("made")
        await sender.declare("made")
        await sender.declare("made", queues=7)  # it is there
        assert await sender.exists("made")

    with_sender(broker, work)
    with_sender(broker, lambda sender: sender.put("made", b"1", key="task-1", tags="paint"))
    [message] = broker.wait_for_messages("made")
    assert (message.body, message.keys, message.tags) == (b"1", ["task-1"], "paint")


def test_a_task_that_is_due_later_waits_at_a_level_before_its_time(broker: EmbeddedBroker) -> None:
    due_ms = wall_ms() + 95_500

    async def work(sender: TaskSender) -> None:
        await sender.declare("later")
        await sender.put("later", b"late", due_ms=due_ms)

    with_sender(broker, work)
    [message] = broker.wait_for_messages(DELAYED)
    assert message.properties["DELAY"] == "5"  # 1 min
    assert due_of(message.properties) == due_ms
    assert not broker.messages("later")


def test_a_group_without_members_is_measured_and_emptied(broker: EmbeddedBroker) -> None:
    async def work(sender: TaskSender) -> None:
        assert await sender.size("sizes", "sizes") == 0  # there is no topic
        await sender.declare("sizes")
        for number in range(5):
            await sender.put("sizes", b"%d" % number)
        assert await sender.size("sizes", "sizes") == 5
        assert await sender.purge("sizes", "sizes") == 5
        assert await sender.size("sizes", "sizes") == 0
        assert await sender.purge("sizes", "sizes") == 0

    with_sender(broker, work)


def test_a_group_with_a_member_is_emptied_by_it(broker: EmbeddedBroker) -> None:
    async def work(sender: TaskSender) -> None:
        await sender.declare("busy")
        for number in range(5):
            await sender.put("busy", b"%d" % number)
        async with Consumer(
            broker.name_server, group="busy", topics="busy", start="first"
        ) as consumer:
            taken = await consumer.fetch(1, 5.0)
            assert await sender.purge("busy", "busy") == 5
            async with asyncio.timeout(10):
                while await sender.size("busy", "busy"):
                    await asyncio.sleep(0.01)
            await consumer.ack(*taken)
            assert await consumer.fetch(1, 0.1) == []

    with_sender(broker, work)
    assert wait_for(lambda: len(broker.messages("busy")) == 5)  # the log keeps them


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"delay_levels": "soon"}, "separated by one blank"),
        ({"delay_levels": ["1s"]}, "delay_levels is .* Give a text"),
        ({"queues": "16"}, "queues is '16'.* Give a whole number"),
        ({"queues": 0}, "queues is 0"),
        ({"group": "own"}, "unknown settings group"),
        ({"trace": True}, "unknown settings trace"),
    ],
)
def test_bad_arguments_are_refused_at_once(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        TaskSender("localhost:9876", **given)
