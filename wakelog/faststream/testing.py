"""TestRocketMQBroker: the functions of an application without a RocketMQ, or beside a real one.

In memory a message goes straight to the functions whose topic, tags or SQL expression it has, one
of each group; an error of a function comes out of `publish`. There are no delays, no retries and no
dead letters: `message.committed` says how a message ended. `with_real=True` has them all.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Any, cast, overload
from unittest import mock

from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import DefaultCodec
from faststream._internal.testing.broker import EnterType, TestBroker, change_producer
from faststream.exceptions import SubscriberNotFound

from wakelog.client import ConsumerMessage, Message, MessageQueue, Receipt, ReceivedMessage, Sql
from wakelog.client.consumer_message import Settler
from wakelog.client.message_filter import make_filter
from wakelog.client.messages import encode
from wakelog.faststream.broker import RocketMQBroker, check_subscribers
from wakelog.faststream.config import Clients
from wakelog.faststream.producer import RocketMQProducer
from wakelog.faststream.response import RocketMQPublishCommand
from wakelog.faststream.subscriber import RocketMQSubscriber
from wakelog.protocol.record import MessageRecord

__all__ = ["TestRocketMQBroker"]

MEMORY = "memory"
"""The name of the broker that there is not."""
NO_HOST = ("0.0.0.0", 0)


class TestRocketMQBroker(TestBroker[RocketMQBroker, EnterType], broker=RocketMQBroker):
    """See the module."""

    @overload
    def __init__(
        self: "TestRocketMQBroker[RocketMQBroker]",
        broker: RocketMQBroker,
        /,
        *,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: "TestRocketMQBroker[tuple[RocketMQBroker, ...]]",
        *brokers: RocketMQBroker,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    def __init__(
        self,
        *brokers: RocketMQBroker,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None:
        super().__init__(*brokers, with_real=with_real, connect_only=connect_only)

    @contextmanager
    def _patch_producer(self, broker: RocketMQBroker) -> Iterator[None]:
        config = broker.config.broker_config
        producer = FakeProducer(broker, self.brokers)
        with change_producer(config, producer), mock.patch.object(config, "clients", NoClients()):
            yield

    async def _fake_connect(self, broker: RocketMQBroker, *args: Any, **kwargs: Any) -> None:
        return None

    def _fake_start(self, broker: RocketMQBroker, *args: Any, **kwargs: Any) -> None:
        check_subscribers(broker)
        super()._fake_start(broker, *args, **kwargs)

    def create_publisher_fake_subscriber(
        self, broker: RocketMQBroker, publisher: Any
    ) -> tuple[RocketMQSubscriber, bool]:
        """Return who gets a publisher's messages, and whether the application declared it."""
        for each in _subscribers(self.brokers):
            if publisher.topic in each.topics:
                return each, True
        topic = publisher.topic
        fake = broker.subscriber(
            topic, batch=publisher.is_batch, group_id=f"test-{topic}", start="first",
            persistent=False,
        )  # fmt: skip
        return fake, False


class FakeProducer(RocketMQProducer):
    """Gives messages to functions, as the brokers of a cluster would."""

    def __init__(self, broker: RocketMQBroker, brokers: Sequence[RocketMQBroker]) -> None:
        super().__init__(None, None)
        self._parser = ParserComposition(broker._parser, self._parser)
        self._decoder = ParserComposition(broker._decoder, self._decoder)
        self.codec = broker.config.broker_codec or DefaultCodec()
        self._serializer = broker.config.fd_config._serializer
        self._brokers = brokers
        self._offsets = count()

    def __bool__(self) -> bool:
        """Tell that it is connected."""
        return True

    async def disconnect(self) -> None:
        """Do nothing."""

    async def publish(self, cmd: RocketMQPublishCommand) -> Receipt | None:
        """Give a message to each group. Raises: what the functions raise."""
        [raw] = await self._raw(cmd, [cmd.body])
        for subscriber in self._wanting(raw):
            await subscriber.process_message((raw,) if subscriber.is_batch else raw)
        return None

    async def publish_batch(self, cmd: RocketMQPublishCommand) -> Sequence[Receipt]:
        """Give messages to each group, as one batch to those that take batches."""
        raw = await self._raw(cmd, cmd.batch_bodies)
        for subscriber in dict.fromkeys(one for each in raw for one in self._wanting(each)):
            wanted = tuple(each for each in raw if _wants(subscriber, each))
            for given in [wanted] if subscriber.is_batch else wanted:
                await subscriber.process_message(given)
        return ()

    async def request(self, cmd: RocketMQPublishCommand) -> ReceivedMessage:
        """Return what a function returned. Raises: SubscriberNotFound; TimeoutError."""
        [raw] = await self._raw(cmd, [cmd.body])
        for subscriber in self._wanting(raw):
            async with asyncio.timeout(cmd.timeout.total_seconds()):
                given = (raw,) if subscriber.is_batch else raw
                result = await subscriber.process_message(given)
            reply = RocketMQPublishCommand.from_cmd(result.as_publish_command())
            reply.destination = cmd.destination
            [answer] = await self._raw(reply, [reply.body])
            return answer
        raise SubscriberNotFound

    async def _raw(
        self, cmd: RocketMQPublishCommand, bodies: Sequence[Any]
    ) -> list[ConsumerMessage]:
        """Return messages as the client gives them. Raises: InvalidArgument."""
        encoded = await self.encode(cmd, bodies)
        return [self._stored(Message(cmd.destination, body, **more)) for body, more in encoded]

    def _stored(self, message: Message) -> ConsumerMessage:
        offset = next(self._offsets)
        encoded = encode(message, f"{offset:032X}")
        record = MessageRecord(
            size_bytes=0, body_crc=0, queue_id=0, flag=encoded.flag, queue_offset=offset,
            physical_offset=offset, sys_flag=encoded.sys_flag, born_timestamp_ms=0,
            born_host=NO_HOST, store_timestamp_ms=0, store_host=NO_HOST, reconsume_times=0,
            prepared_transaction_offset=0, body=encoded.body, topic=encoded.topic,
            properties_text=encoded.properties,
        )  # fmt: skip
        return ConsumerMessage(record, MessageQueue(encoded.topic, MEMORY, 0), NoSettler())

    def _wanting(self, raw: ConsumerMessage) -> Iterable[RocketMQSubscriber]:
        """Yield a subscriber of each group that wants a message."""
        groups = set()
        for subscriber in _subscribers(self._brokers):
            if subscriber.group_id not in groups and _wants(subscriber, raw):
                if not subscriber.config.given.get("broadcast", False):
                    groups.add(subscriber.group_id)
                yield subscriber


def _subscribers(brokers: Iterable[RocketMQBroker]) -> list[RocketMQSubscriber]:
    return [cast(RocketMQSubscriber, each) for broker in brokers for each in broker.subscribers]


def _wants(subscriber: RocketMQSubscriber, raw: ConsumerMessage) -> bool:
    wanted = subscriber.config.filter
    if raw.topic not in subscriber.topics:
        return False
    if isinstance(wanted, Sql):
        return make_filter("", wanted.expression)(raw)
    return make_filter(wanted, "")(raw)


class NoSettler(Settler):
    """Settles nothing: no broker waits for it."""

    namespace = ""

    async def ack(self, message: ConsumerMessage) -> None:
        """Do nothing."""

    async def nack(self, message: ConsumerMessage, delay: timedelta | None) -> None:
        """Do nothing."""

    async def reject(self, message: ConsumerMessage) -> None:
        """Do nothing."""

    async def reply(self, message: ConsumerMessage, body: bytes | str, properties: Any) -> None:
        """Do nothing: `request` returns what the function returned."""


class NoClients(Clients):
    """Makes consumers that get nothing."""

    def __init__(self) -> None:
        super().__init__("memory:0", "memory", False)

    def consumer(self, **options: Any) -> Any:
        """Return such a consumer."""
        return NoConsumer()

    async def create_topics(self, topics: Iterable[str]) -> dict[str, Any]:
        """Create none."""
        return {}


class NoConsumer:
    """Waits until it is closed."""

    def __init__(self) -> None:
        self.is_open = True
        self._closed = asyncio.Event()

    async def start(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """End the waits."""
        self.is_open = False
        self._closed.set()

    async def fetch(self, max: int, wait: float) -> list[ConsumerMessage]:
        """Return none, after `wait` seconds."""
        try:
            async with asyncio.timeout(wait):
                await self._closed.wait()
        except TimeoutError:
            pass
        return []
