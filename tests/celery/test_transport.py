"""Connections: where they lead, what kombu's loop hears, and what a lost broker is to Celery."""

import socket
from collections.abc import Callable

import pytest
from kombu.asynchronous import Hub
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.exceptions import OperationalError
from kombu.messaging import Consumer, Producer

import wakelog.celery  # noqa: F401  # the scheme
from tests.compat.processes import free_port
from tests.tasks.brokers import AT_EMBEDDED, broker
from wakelog.client import InvalidArgument
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]
pytestmark = pytest.mark.slow


def test_a_connection_is_shown_without_its_password(broker: EmbeddedBroker) -> None:
    with Connection(f"rocketmq://user:secret@{broker.name_server}") as connection:
        assert connection.as_uri() == f"rocketmq://user:**@{broker.name_server}"
        assert "secret" in connection.as_uri(include_password=True)
        assert connection.transport.driver_version()


def test_several_name_servers_are_asked(broker: EmbeddedBroker) -> None:
    unreachable = f"127.0.0.1:{free_port()}"
    for between in ";,":
        url = f"rocketmq://{unreachable}{between}{broker.name_server}"
        with Connection(url) as connection:
            connection.connect()
            assert connection.connected


def test_an_option_that_is_unknown_is_refused(broker: EmbeddedBroker) -> None:
    url = f"rocketmq://{broker.name_server}"
    with pytest.raises(InvalidArgument, match="Did you mean visibility_timeout"):
        Connection(url, transport_options={"visibility_time": 3}).connect()


def test_a_name_server_that_does_not_answer_is_an_error_to_try_again() -> None:
    with Connection(f"rocketmq://127.0.0.1:{free_port()}") as connection:
        with pytest.raises(OperationalError, match="no name server gave routes"):
            connection.ensure_connection(max_retries=1, interval_start=0)
        with pytest.raises(connection.recoverable_connection_errors):
            connection.connect()


@AT_EMBEDDED
def test_a_broker_that_comes_back_is_used_by_retries(broker: EmbeddedBroker) -> None:
    with Connection(f"rocketmq://{broker.name_server}") as connection:
        producer = Producer(connection.channel())
        producer.publish("first", routing_key="returning", declare=[Queue("returning")])
        broker.drop_connections()
        policy = {"max_retries": 3, "interval_start": 0}
        producer.publish("second", routing_key="returning", retry=True, retry_policy=policy)
        with connection.SimpleQueue("returning") as queue:
            found = [queue.get(timeout=5) for _ in range(2)]
            assert sorted(message.payload for message in found) == ["first", "second"]


def test_a_closed_connection_is_an_error_to_try_again(broker: EmbeddedBroker) -> None:
    connection = Connection(f"rocketmq://{broker.name_server}")
    transport = connection.connect().client.transport
    connection.release()
    with pytest.raises(connection.recoverable_connection_errors, match="Connect again"):
        transport.link.size("any")


QUIET_TURNS = 12


def turn(hub: Hub, is_done: Callable[[], object]) -> None:
    """Run kombu's loop until something happened."""
    loop = hub.create_loop()
    for _ in range(1_000):
        if is_done():
            return
        next(loop)
    raise AssertionError("not within 1,000 turns")


def test_kombus_loop_hears_of_messages_and_of_room(broker: EmbeddedBroker) -> None:
    got: list[object] = []
    hub = Hub()
    hub.timer.call_repeatedly(0.05, lambda: None)  # no turn waits for long
    with Connection(f"rocketmq://{broker.name_server}") as connection:
        connection.register_with_event_loop(hub)
        consumer = Consumer(connection.channel(), [Queue("looped")], on_message=got.append)
        consumer.qos(prefetch_count=1)
        consumer.consume()
        producer = Producer(connection.channel())
        for number in range(2):
            producer.publish(number, routing_key="looped")
        turn(hub, lambda: got)
        loop = hub.create_loop()
        for _ in range(QUIET_TURNS):  # until no news of an arrival is left
            next(loop)
        assert len(got) == 1
        got[0].ack()  # type: ignore[attr-defined]
        turn(hub, lambda: len(got) == 2)
    hub.close()


def test_a_wait_ends_in_time(broker: EmbeddedBroker) -> None:
    with Connection(f"rocketmq://{broker.name_server}") as connection:
        with pytest.raises(socket.timeout):
            connection.drain_events(timeout=0)  # nothing is consumed
        Consumer(connection.channel(), [Queue("empty")]).consume()
        with pytest.raises(socket.timeout):
            connection.drain_events(timeout=0.05)
