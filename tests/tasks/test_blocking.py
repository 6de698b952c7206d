"""Both ends for threads have the names of those for asyncio."""

from tests.tasks.brokers import broker
from wakelog.client import Consumer
from wakelog.tasks.blocking import BlockingReader, BlockingSender
from wakelog.tasks.reader import TaskReader
from wakelog.tasks.sender import TaskSender
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]


def test_a_task_goes_from_a_sender_to_a_reader(broker: EmbeddedBroker) -> None:
    with BlockingSender(TaskSender(broker.name_server, queues=1)) as sender:
        sender.declare("blocking")
        sender.put("blocking", b"1")
        sender.put("blocking", b"2")
        assert sender.size("blocking", "blocking") == 2
        consumer = Consumer(broker.name_server, group="blocking", topics="blocking", start="first")
        reader = TaskReader(
            consumer, sender.twin, "blocking", accepts=lambda _: True, visibility_ms=60_000
        )
        with BlockingReader(reader) as reading:
            first, second = reading.wait_next(5.0), reading.wait_next(5.0)
            assert first is not None and second is not None
            reading.ack(first)
            reading.refuse(second, "not wanted")
        assert sender.purge("blocking", "blocking") == 0
