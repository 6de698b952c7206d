"""The broker of taskiq: tasks are done, delayed, and refused."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from taskiq import InMemoryBroker
from taskiq.exceptions import SendTaskError
from taskiq.receiver import Receiver

from tests.tasks.brokers import broker
from wakelog.client import InvalidArgument, Producer
from wakelog.client.clocks import wall_ms
from wakelog.taskiq import RocketMQBroker
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]
pytestmark = pytest.mark.slow

SECONDS = 10.0


class Play:
    """A broker with a task that notes what it got, and a worker for it."""

    def __init__(self, server: EmbeddedBroker, queue: str, **given: Any) -> None:
        self.broker = RocketMQBroker(server.name_server, queue=queue, queues=1, **given)
        self.broker.result_backend = InMemoryBroker().result_backend
        self.done: list[tuple[int, int]] = []  # the number, and when
        self.note = self.add_task("note")

    def add_task(self, name: str) -> Any:
        """Return a task that is known here by a name."""

        async def note(number: int) -> int:
            self.done.append((number, wall_ms()))
            return number * 2

        return self.broker.task(task_name=name)(note)

    async def wait_done(self, count: int) -> None:
        async with asyncio.timeout(SECONDS):
            while len(self.done) < count:
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run a receiver, as the command `taskiq worker` does."""
        finish = asyncio.Event()
        self.broker.is_worker_process = True
        async with self.started():
            receiver = Receiver(self.broker, max_async_tasks=4)
            listening = asyncio.create_task(receiver.listen(finish))
            try:
                yield
            finally:
                finish.set()
                await listening

    @asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        await self.broker.startup()
        try:
            yield
        finally:
            await self.broker.shutdown()


def test_tasks_give_results(broker: EmbeddedBroker) -> None:
    play = Play(broker, "results")

    async def run() -> None:
        async with play.working():
            sent = [await play.note.kiq(number) for number in range(5)]
            results = [await each.wait_result(timeout=SECONDS) for each in sent]
        assert [each.return_value for each in results] == [0, 2, 4, 6, 8]

    asyncio.run(run())
    assert all(each.keys for each in broker.messages("taskiq-results"))


def test_a_delay_is_kept(broker: EmbeddedBroker) -> None:
    play = Play(broker, "delays")

    async def run() -> None:
        async with play.working():
            began_ms = wall_ms()
            await play.note.kicker().with_labels(delay="1.2").kiq(1)
            await play.wait_done(1)
        [(_, done_ms)] = play.done
        assert began_ms + 1_200 <= done_ms < began_ms + 3_000

    asyncio.run(run())


def test_what_was_not_acknowledged_is_given_again(broker: EmbeddedBroker) -> None:
    play = Play(broker, "again", visibility_timeout=timedelta(seconds=0.2))

    async def run() -> None:
        async with play.started():
            await play.note.kiq(7)
            tasks = play.broker.listen()
            first = await anext(tasks)
            second = await anext(tasks)
            assert first.data == second.data
            for each in (first, second):
                found = each.ack()
                assert found is not None
                await found
            await tasks.aclose()

    asyncio.run(run())


def test_what_is_no_task_is_a_dead_letter(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    play, stranger = Play(broker, "mixed"), Play(broker, "mixed")
    unknown = stranger.add_task("nobody.knows")

    async def run() -> None:
        async with Producer(broker.name_server) as producer, stranger.started():
            await producer.send("taskiq-mixed", b"4711 paid")
            await unknown.kiq(1)
        async with play.working():
            await play.note.kiq(2)
            await play.wait_done(1)

    with caplog.at_level(logging.ERROR, "wakelog.tasks"):
        asyncio.run(run())
    dead = broker.wait_for_messages("%DLQ%taskiq-mixed", count=2)
    assert {each.body for each in dead} >= {b"4711 paid"}
    assert "a dead letter: no task of taskiq: JSONDecodeError: " in caplog.text
    assert "task 'nobody.knows' is not known here: message " in caplog.text
    assert [number for number, _ in play.done] == [2]


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({"delay": "soon"}, "the label delay='soon' is no delay"),
        ({"delay": -1}, "is no delay"),
        ({"delay": "nan"}, "is no delay"),
        ({"priority": 3}, "RocketMQ has no priorities"),
    ],
)
def test_a_label_that_cannot_be_kept_is_refused(
    broker: EmbeddedBroker, labels: dict[str, Any], text: str
) -> None:
    play = Play(broker, "labels")

    async def run() -> None:
        async with play.started():
            with pytest.raises(SendTaskError) as raised:
                await play.note.kicker().with_labels(**labels).kiq(1)
            assert text in str(raised.value.__cause__)

    asyncio.run(run())


def test_bad_arguments_are_refused_at_once() -> None:
    with pytest.raises(InvalidArgument, match="visibility_timeout"):
        RocketMQBroker("localhost:9876", visibility_timeout=timedelta())
    with pytest.raises(InvalidArgument, match="Give HOST:PORT"):
        RocketMQBroker("")
    for given in ({"queue": 5}, {"queues": "16"}, {"group": "own"}, {"start": "last"}):
        with pytest.raises(InvalidArgument, match=next(iter(given))):
            RocketMQBroker("localhost:9876", **given)


def test_a_broker_that_is_not_started_says_so() -> None:
    play = RocketMQBroker("localhost:9876")

    async def run() -> None:
        with pytest.raises(InvalidArgument, match="this broker is not started"):
            await anext(play.listen())

    asyncio.run(run())
