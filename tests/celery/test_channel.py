"""kombu's own calls over a broker: queues, exchanges, acknowledgements, and what is refused."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from amqp.exceptions import NotFound, PreconditionFailed
from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.messaging import Consumer, Producer

import wakelog.celery  # noqa: F401  # the scheme
from tests.tasks.brokers import broker, wait_for
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]
pytestmark = pytest.mark.slow

SECONDS = 5.0
NEWS = Exchange("news", type="fanout")
EVENTS = Exchange("events", type="topic")


@pytest.fixture
def connection(broker: EmbeddedBroker) -> Iterator[Connection]:
    with Connection(f"rocketmq://{broker.name_server}", transport_options={"queues": 2}) as opened:
        yield opened


class Received:
    """What a consumer got of some queues."""

    def __init__(self, connection: Connection, *queues: Queue, no_ack: bool = False) -> None:
        self.connection = connection
        self.messages: list[Any] = []
        self.channel = connection.channel()
        self.consumer = Consumer(self.channel, list(queues), callbacks=[self._note], no_ack=no_ack)

    def _note(self, body: object, message: Any) -> None:
        self.messages.append(message)

    def wait(self, count: int) -> list[Any]:
        while len(self.messages) < count:
            self.connection.drain_events(timeout=SECONDS)
        return [message.payload for message in self.messages]

    def wait_none(self) -> None:
        with pytest.raises(socket.timeout):
            self.connection.drain_events(timeout=0.2)


def test_a_message_is_acknowledged_requeued_and_rejected(
    connection: Connection, broker: EmbeddedBroker
) -> None:
    with connection.SimpleQueue("simple.tasks") as queue:
        queue.put({"number": 1})
        first = queue.get(timeout=SECONDS)
        assert first.payload == {"number": 1}
        assert "redelivered" not in first.delivery_info
        first.requeue()
        again = queue.get(timeout=SECONDS)
        assert again.delivery_info["redelivered"] is True
        again.reject()
        with pytest.raises(queue.Empty):
            queue.get(timeout=0.2)
    [dead] = broker.wait_for_messages("%DLQ%kombu-simple_x2Etasks")
    assert dead.keys == []


def test_a_queue_is_measured_and_emptied(connection: Connection) -> None:
    channel = connection.channel()
    queue = Queue("sizes", durable=True)(channel)
    with pytest.raises(NotFound, match="queue sizes has no topic"):
        queue.queue_declare(passive=True)
    queue.declare()
    producer = Producer(channel)
    for number in range(3):
        producer.publish(number, routing_key="sizes")
    assert queue.queue_declare(passive=True).message_count == 3
    assert queue.purge() == 3
    assert queue.queue_declare(passive=True).message_count == 0


def test_a_message_is_taken_directly(connection: Connection) -> None:
    queue = Queue("direct")(connection.channel())
    queue.declare()
    assert queue.get() is None
    Producer(connection.channel()).publish("hello", routing_key="direct")
    message = wait_for(queue.get)
    assert message.payload == "hello"
    message.ack()


def test_a_broadcast_reaches_every_reader_and_none_from_before(connection: Connection) -> None:
    producer = Producer(connection.channel(), exchange=NEWS)
    producer.publish("before")
    queues = [Queue(f"tmp-{number}", NEWS, auto_delete=True) for number in range(2)]
    received = [Received(connection, queue, no_ack=True) for queue in queues]
    for each in received:
        each.consumer.consume()
    producer.publish("news")
    assert [each.wait(1) for each in received] == [["news"], ["news"]]
    queues[0](received[0].channel).delete()
    producer.publish("more")
    assert received[1].wait(2) == ["news", "more"]
    assert len(received[0].messages) == 1


def test_an_exchange_of_topics_leads_by_patterns(connection: Connection) -> None:
    shared = Queue("watched", EVENTS, routing_key="task.#")
    temporary = Queue("tmp-events", EVENTS, routing_key="*.failed", exclusive=True)
    received = [Received(connection, shared), Received(connection, temporary)]
    for each in received:
        each.consumer.consume()
    producer = Producer(connection.channel(), exchange=EVENTS)
    for key in ("task.failed", "worker.failed", "task.done"):
        producer.publish(key, routing_key=key)
    assert sorted(received[0].wait(2)) == ["task.done", "task.failed"]
    assert sorted(received[1].wait(2)) == ["task.failed", "worker.failed"]
    received[0].wait_none()


def test_a_queue_gets_what_a_producer_sent_that_does_not_know_it(
    connection: Connection, broker: EmbeddedBroker
) -> None:
    orders = Exchange("orders", type="direct")
    received = Received(connection, Queue("painters", orders, routing_key="paint"))
    received.consumer.consume()
    with Connection(f"rocketmq://{broker.name_server}") as other:
        producer = Producer(other.channel(), exchange=orders)
        producer.publish("red", routing_key="paint")
        producer.publish("rough", routing_key="sand")
    assert received.wait(1) == ["red"]
    received.wait_none()


def test_a_reply_goes_to_a_temporary_queue_of_another_process(
    connection: Connection, broker: EmbeddedBroker
) -> None:
    received = Received(connection, Queue("tmp-replies", exclusive=True))
    received.consumer.consume()
    with Connection(f"rocketmq://{broker.name_server}") as other:
        Producer(other.channel()).publish("done", routing_key="tmp-replies")
    assert received.wait(1) == ["done"]


def test_so_many_are_in_hand_and_no_more(connection: Connection) -> None:
    received = Received(connection, Queue("bounded"))
    received.consumer.qos(prefetch_count=2)
    received.consumer.consume()
    producer = Producer(connection.channel())
    for number in range(3):
        producer.publish(number, routing_key="bounded")
    received.wait(2)
    received.wait_none()
    received.messages[0].ack()
    assert sorted(received.wait(3)) == [0, 1, 2]


def test_what_was_in_hand_of_a_closed_channel_comes_again(connection: Connection) -> None:
    received = Received(connection, Queue("unsettled"))
    received.consumer.consume()
    Producer(connection.channel()).publish("again", routing_key="unsettled")
    received.wait(1)
    received.consumer.cancel()  # and the message may be acknowledged yet
    received.channel.close()
    other = Received(connection, Queue("unsettled"))
    other.consumer.consume()
    assert other.wait(1) == ["again"]
    other.consumer.cancel()
    other.messages[0].ack()
    received.messages[0].ack()  # its channel is closed


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_priority": 3}, "queue refused is declared with x-max-priority, which RocketMQ"),
        ({"message_ttl": 3}, "queue refused is declared with x-message-ttl"),
        ({"max_priority": 3, "exclusive": True}, "x-max-priority"),
    ],
)
def test_a_queue_that_needs_more_than_rocketmq_has_is_refused(
    connection: Connection, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        Queue("refused", **options)(connection.channel()).declare()


def test_a_priority_is_refused(connection: Connection) -> None:
    with pytest.raises(PreconditionFailed, match="priority=3 is given, and RocketMQ has none"):
        Producer(connection.channel()).publish("urgent", routing_key="any", priority=3)


@pytest.mark.parametrize("closes", [False, True], ids=["cancel", "close"])
def test_a_queue_of_two_channels_is_read_until_the_last_one_leaves(
    connection: Connection, closes: bool
) -> None:
    """The first that left had taken the reader of the other with it."""
    name = f"shared.{'closed' if closes else 'cancelled'}"
    one = Received(connection, Queue(name))
    other = Received(connection, Queue(name))
    one.consumer.qos(prefetch_count=1)
    for each in (one, other):
        each.consumer.consume()
    producer = Producer(connection.channel())
    for number in range(3):
        producer.publish(number, routing_key=name)
    while not one.messages:
        connection.drain_events(timeout=SECONDS)
    [in_hand] = one.messages
    if closes:
        one.channel.close()
        assert sorted(other.wait(3)) == [0, 1, 2]
    else:
        one.consumer.cancel()
        in_hand.ack()
        other.wait(2)
        assert sorted([in_hand.payload, *(each.payload for each in other.messages)]) == [0, 1, 2]
    for message in other.messages:
        message.ack()
    assert len(one.messages) == 1
    other.consumer.cancel()
    other.consumer.consume()  # a reader that was retired is read anew
    producer.publish("last", routing_key=name)
    count = len(other.messages) + 1
    assert other.wait(count)[-1] == "last"
    other.consumer.cancel()
    other.channel.close()


def test_an_exchange_of_two_channels_loses_nothing_when_one_is_closed(
    connection: Connection,
) -> None:
    """What came had been refused, and acknowledged, by the channel that had read first."""
    queue = Queue("shared.events", EVENTS, routing_key="order.*")
    one, other = Received(connection, queue), Received(connection, queue)
    for each in (one, other):
        each.consumer.consume()
    one.channel.close()
    producer = Producer(connection.channel(), exchange=EVENTS)
    producer.publish("paid", routing_key="order.paid")
    assert other.wait(1) == ["paid"]


def test_only_the_channel_that_gets_a_message_says_whether_it_is_acknowledged(
    connection: Connection,
) -> None:
    acknowledging = Received(connection, Queue("shared.acks"))
    careless = Received(connection, Queue("shared.acks"), no_ack=True)
    for each in (acknowledging, careless):
        each.consumer.consume()
    producer = Producer(connection.channel())
    for number in range(4):
        producer.publish(number, routing_key="shared.acks")
    while len(acknowledging.messages) + len(careless.messages) < 4:
        connection.drain_events(timeout=SECONDS)
    assert acknowledging.messages
    acknowledging.channel.close()
    count = len(careless.messages) + len(acknowledging.messages)
    assert len(careless.wait(count)) == 4
