"""What becomes of tasks in a reader: each is done, put again, or a dead letter; none is lost."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tests.tasks.brokers import AT_EMBEDDED, broker
from wakelog.client import ClientError, Consumer, ConsumerMessage
from wakelog.client.clocks import wall_ms
from wakelog.tasks.reader import NO_TIMEOUT, READY_MAX, NoTask, TaskReader
from wakelog.tasks.sender import TaskSender
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]
pytestmark = pytest.mark.slow

SECONDS = 5.0


def is_task(message: ConsumerMessage) -> bool:
    if message.body == b"bad":
        raise NoTask("it is\nbad: " + 1_000 * "?")
    return message.body != b"not mine"


class Play:
    """A topic of its own, a sender, and readers of one group."""

    def __init__(self, server: EmbeddedBroker, topic: str, sender: TaskSender) -> None:
        self.server, self.topic, self.sender = server, topic, sender

    @asynccontextmanager
    async def reader(
        self, visibility_ms: int = 60_000, is_shared: bool = True
    ) -> AsyncIterator[TaskReader]:
        make = partial(Consumer, self.server.name_server, group=self.topic, topics=self.topic)
        if is_shared:
            consumer = make(start="first", consume_timeout=NO_TIMEOUT)
        else:
            assert self.server.store is not None
            folder = self.server.store.parent / self.topic  # gone with the test
            consumer = make(broadcast=True, offset_folder=folder)
        reader = TaskReader(
            consumer,
            self.sender,
            self.topic,
            accepts=is_task,
            visibility_ms=visibility_ms,
            is_shared=is_shared,
        )
        async with reader:
            yield reader

    async def put(self, *bodies: bytes, due_ms: int = 0) -> None:
        for body in bodies:
            await self.sender.put(self.topic, body, due_ms=due_ms)


def play(server: EmbeddedBroker, topic: str, work: Callable[[Play], Awaitable[None]]) -> None:
    async def run() -> None:
        async with TaskSender(server.name_server, queues=1) as sender:
            await sender.declare(topic)
            await work(Play(server, topic, sender))

    asyncio.run(run())


async def taken(reader: TaskReader) -> ConsumerMessage:
    message = await reader.wait_next(SECONDS)
    assert message is not None
    return message


def test_what_was_acknowledged_does_not_come_again(broker: EmbeddedBroker) -> None:
    async def work(play: Play) -> None:
        await play.put(b"1", b"2")
        async with play.reader() as reader:
            first, second = await taken(reader), await taken(reader)
            assert [first.body, second.body] == [b"1", b"2"]
            assert reader.take() is None
            await reader.ack(first)
            await reader.ack(first)  # no harm
        async with play.reader() as reader:
            assert (await taken(reader)).body == b"2"
            assert await reader.wait_next(0.1) is None

    play(broker, "acks", work)


def test_what_is_put_again_comes_with_its_new_body(broker: EmbeddedBroker) -> None:
    async def work(play: Play) -> None:
        await play.put(b"once")
        async with play.reader() as reader:
            message = await taken(reader)
            await reader.requeue(message, b"twice")
            await reader.requeue(message, b"thrice")  # it is not in hand
            again = await taken(reader)
            assert again.body == b"twice"
            await reader.ack(again)
            assert await play.sender.size(play.topic, play.topic) <= 2

    play(broker, "again", work)


def test_what_is_no_task_is_a_dead_letter_and_holds_nothing_up(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(play: Play) -> None:
        await play.put(b"bad", b"not mine", b"good")
        async with play.reader() as reader:
            message = await taken(reader)
            assert message.body == b"good"
            await reader.refuse(message, "nobody can do it")

    with caplog.at_level(logging.ERROR, "wakelog.tasks"):
        play(broker, "bad-ones", work)
    [line, _] = [each.message for each in caplog.records if "a dead letter" in each.message]
    assert line.startswith("a dead letter: it is bad: ???")
    assert "? ...: message " in line
    assert len(line) < 500
    assert "at offset 0 of queue 0 of topic bad-ones at broker" in caplog.text
    assert "nobody can do it" in caplog.text
    dead = broker.wait_for_messages("%DLQ%bad-ones", count=2)
    assert sorted(message.body for message in dead) == [b"bad", b"good"]


def test_a_task_is_given_when_it_is_due_and_not_before(broker: EmbeddedBroker) -> None:
    due_ms = 0

    async def work(play: Play) -> None:
        nonlocal due_ms
        due_ms = wall_ms() + 1_250  # a level of 1 s, then a wait here
        await play.put(b"later", due_ms=due_ms)
        await play.put(b"now")
        async with play.reader() as reader:
            first = await taken(reader)
            assert first.body == b"now"
            second = await taken(reader)
            assert second.body == b"later"
            assert due_ms <= wall_ms() < due_ms + 1_000

    play(broker, "due", work)


@AT_EMBEDDED
def test_a_task_beyond_one_level_takes_another_hop(broker: EmbeddedBroker) -> None:
    async def work(play: Play) -> None:
        await play.put(b"much later", due_ms=wall_ms() + 65_000)
        broker.advance(61)  # the hop of 1 min ends; by this machine's clock it is early still
        async with play.reader() as reader:
            assert await reader.wait_next(0.5) is None
            broker.advance(61)
            assert await reader.wait_next(0.5) is None

    play(broker, "hops", work)
    hops = [
        message.properties.get("DELAY")
        for message in broker.messages("SCHEDULE_TOPIC_XXXX")
        if message.body == b"much later"
    ]
    assert hops == ["5", "5", "5"]


def test_what_is_not_settled_in_time_is_given_again(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(play: Play) -> None:
        await play.put(b"slow")
        async with play.reader(visibility_ms=200) as reader:
            first = await taken(reader)
            second = await taken(reader)
            assert second.body == b"slow"
            assert second.queue_offset == first.queue_offset + 1
            await reader.ack(first)  # too late, and no harm
            await reader.ack(second)

    play(broker, "visible", work)
    assert "not settled in time, and given again: message" in caplog.text


def test_a_retired_reader_leaves_when_its_last_task_is_settled(broker: EmbeddedBroker) -> None:
    async def work(play: Play) -> None:
        await play.put(b"1", b"2")
        async with play.reader() as reader:
            first = await taken(reader)
            await reader.retire()
            assert reader.is_open
            assert await reader.wait_next(0.05) is None
            await reader.ack(first)
            assert not reader.is_open
            async with play.reader() as other:
                assert (await taken(other)).body == b"2"

    play(broker, "retired", work)


def test_a_few_tasks_are_ready_and_the_rest_waits(broker: EmbeddedBroker) -> None:
    async def work(play: Play) -> None:
        await asyncio.gather(*(play.put(b"%d" % number) for number in range(READY_MAX * 3)))
        async with play.reader() as reader:
            found = [await taken(reader)]
            await asyncio.sleep(0.1)
            while (message := reader.take()) is not None:
                found.append(message)
            assert READY_MAX <= len(found) <= READY_MAX + 1
            while len(found) < READY_MAX * 3:
                found.append(await taken(reader))
            assert len({message.body for message in found}) == READY_MAX * 3

    play(broker, "many", work)


def test_no_more_are_ready_when_many_are_due_at_once(broker: EmbeddedBroker) -> None:
    count = READY_MAX * 2

    async def work(play: Play) -> None:
        bodies = [b"%d" % number for number in range(count)]
        await asyncio.gather(*(play.put(body) for body in bodies))
        async with play.reader() as reader:
            early = [await taken(reader) for _ in range(READY_MAX)]
            while len(reader._ready) < READY_MAX:
                await asyncio.sleep(0.01)
            for message in early:  # as if they had not been due yet
                reader._wait_for(message, 1)
            await asyncio.sleep(0.1)
            assert len(reader._ready) == READY_MAX
            found = [await taken(reader) for _ in range(count)]
            assert {message.body for message in found} == set(bodies)

    play(broker, "due-at-once", work)


def test_no_more_are_ready_when_many_are_given_again_here(broker: EmbeddedBroker) -> None:
    count = READY_MAX * 2

    async def work(play: Play) -> None:
        async with play.reader(is_shared=False) as reader:
            bodies = [b"%d" % number for number in range(count)]
            await asyncio.gather(*(play.put(body) for body in bodies))
            in_hand = [await taken(reader) for _ in range(READY_MAX)]
            while len(reader._ready) < READY_MAX:
                await asyncio.sleep(0.01)
            for message in in_hand:
                await reader.requeue(message, message.body)
            assert len(reader._ready) == READY_MAX
            found = [await taken(reader) for _ in range(count)]
            assert {message.body for message in found} == set(bodies)

    play(broker, "again-at-once", work)


def test_a_reader_that_was_closed_can_be_retired(broker: EmbeddedBroker) -> None:
    async def work(play: Play) -> None:
        async with play.reader() as reader:
            await reader.retire()  # nothing is in hand: it is closed
            assert not reader.is_open
            await reader.retire()

    play(broker, "retired-twice", work)


def test_a_broadcast_gives_again_here_and_drops(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(play: Play) -> None:
        async with play.reader(is_shared=False) as one, play.reader(is_shared=False) as other:
            await play.put(b"all")
            message = await taken(one)
            await one.requeue(message, message.body)
            assert await taken(one) is message
            await one.refuse(message, "not wanted")
            assert (await taken(other)).body == b"all"

    with caplog.at_level(logging.ERROR, "wakelog.tasks"):
        play(broker, "all", work)
    assert "dropped: not wanted" in caplog.text


def test_a_failure_of_the_broker_reaches_the_caller(broker: EmbeddedBroker) -> None:
    async def work(play: Play) -> None:
        async with play.reader() as reader:
            reader.failure = ClientError("it may not", "Ask")
            with pytest.raises(ClientError, match="it may not"):
                reader.take()
            assert reader.take() is None  # it was raised

    play(broker, "failures", work)
