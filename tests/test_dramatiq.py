"""The broker of dramatiq: messages are done, delayed, retried, and refused."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import dramatiq
import pytest
from dramatiq.errors import BrokerConnectionError, QueueJoinTimeout, QueueNotFound

from tests.compat.processes import free_port
from tests.tasks.brokers import broker, wait_for
from wakelog.client import InvalidArgument
from wakelog.client.sync import Producer
from wakelog.dramatiq import RocketMQBroker
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]
pytestmark = pytest.mark.slow

IDLE_MS = 50


@contextmanager
def opened(server: EmbeddedBroker, **given: Any) -> Iterator[RocketMQBroker]:
    found = RocketMQBroker(server.name_server, queues=1, **given)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def working(found: RocketMQBroker) -> Iterator[None]:
    """Run a worker, as the command `dramatiq` does."""
    worker = dramatiq.Worker(found, worker_timeout=IDLE_MS, worker_threads=2)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


def actor(found: RocketMQBroker, work: Callable[[int], None], queue: str, **options: Any) -> Any:
    return dramatiq.actor(broker=found, queue_name=queue, actor_name=queue, **options)(work)


def test_messages_are_done_and_acknowledged(broker: EmbeddedBroker) -> None:
    done: list[int] = []
    with opened(broker) as found:
        note = actor(found, done.append, "notes")
        with working(found):
            for number in range(5):
                note.send(number)
            found.join("notes", timeout=10_000)
        assert sorted(done) == [0, 1, 2, 3, 4]
        with pytest.raises(QueueJoinTimeout):
            note.send(5)
            found.join("notes", timeout=1)
        found.flush_all()
        found.join("notes", timeout=10_000)
    assert all(each.keys for each in broker.messages("dramatiq-notes"))


def test_a_delay_is_kept(broker: EmbeddedBroker) -> None:
    done: list[float] = []
    with opened(broker) as found:
        note = actor(found, lambda _: done.append(time.time()), "delays")
        with working(found):
            began = time.time()
            note.send_with_options(args=(1,), delay=1_200)
            wait_for(lambda: done)
        assert began + 1.2 <= done[0] < began + 3.0


def test_what_fails_is_retried_and_then_a_dead_letter(broker: EmbeddedBroker) -> None:
    tries: list[int] = []

    def fail(number: int) -> None:
        tries.append(number)
        raise LookupError

    with opened(broker) as found:
        failing = actor(found, fail, "failing", max_retries=1, min_backoff=10)
        with working(found):
            failing.send(7)
            broker.wait_for_messages("%DLQ%dramatiq-failing")
    assert tries == [7, 7]


def test_what_is_no_message_of_dramatiq_holds_nothing_up(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[int] = []
    with opened(broker) as found, Producer(broker.name_server) as producer:
        note = actor(found, done.append, "mixed")
        found.topic("mixed")
        producer.send("dramatiq-mixed", b"4711 paid")
        with caplog.at_level(logging.ERROR, "wakelog.tasks"), working(found):
            note.send(1)
            wait_for(lambda: done)
    assert "a dead letter: no message of dramatiq: JSONDecodeError: " in caplog.text
    assert "4711 paid" not in caplog.text
    assert [each.body for each in broker.wait_for_messages("%DLQ%dramatiq-mixed")] == [b"4711 paid"]


def test_so_many_are_in_hand_and_what_is_not_settled_comes_again(broker: EmbeddedBroker) -> None:
    with opened(broker, visibility_timeout=timedelta(seconds=0.3)) as found:
        note = actor(found, lambda number: None, "bounded")
        note.send(1)
        note.send(2)
        consumer = found.consume("bounded", prefetch=1, timeout=5_000)
        first = next(consumer)
        assert first is not None
        assert next(consumer) is None  # one is in hand
        again = wait_for(lambda: next(consumer))
        consumer.ack(again)
        consumer.close()


def test_a_broker_that_does_not_answer_is_an_error_to_try_again() -> None:
    found = RocketMQBroker(f"127.0.0.1:{free_port()}", timeout=timedelta(seconds=0.2))
    note = actor(found, lambda number: None, "nowhere")
    with pytest.raises(BrokerConnectionError, match="no name server gave"):
        note.send(1)
    found.close()


def test_bad_arguments_are_refused_at_once() -> None:
    with pytest.raises(InvalidArgument, match="visibility_timeout"):
        RocketMQBroker("localhost:9876", visibility_timeout=timedelta())
    for given in ({"queues": "16"}, {"group": "own"}, {"start": "last"}):
        with pytest.raises(InvalidArgument, match=next(iter(given))):
            RocketMQBroker("localhost:9876", **given)  # type: ignore[arg-type]
    with pytest.raises(QueueNotFound):
        RocketMQBroker("localhost:9876").flush("unknown")
