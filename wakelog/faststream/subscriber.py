"""A subscriber: one consumer of the client, whose messages go through FastStream's middlewares.

Messages are taken one at a time (or batch by batch), up to `max_workers` at the same time, and
settled one by one. One that was taken and not settled when the subscriber stops comes again.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from faststream._internal.configs import SubscriberSpecificationConfig, SubscriberUsecaseConfig
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.publisher import PublisherProto
from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream._internal.endpoint.utils import process_msg
from faststream.exceptions import SetupError
from faststream.message import StreamMessage
from faststream.middlewares import AckPolicy
from faststream.response import PublishCommand
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, SubscriberSpec

from wakelog.client import ClientError, Consumer, ConsumerMessage, Sql
from wakelog.client.typed import Bad
from wakelog.faststream.bad_body import BadBodies
from wakelog.faststream.config import RocketMQBrokerConfig
from wakelog.faststream.fields import (
    SubscriberFields,
    check_names,
    check_values,
    plain_bad_body,
    start_of,
)
from wakelog.faststream.message import BatchParser, MessageParser, RocketMQMessage
from wakelog.faststream.producer import RocketMQProducer
from wakelog.faststream.response import RocketMQPublishCommand
from wakelog.network.background import awaited, run_once
from wakelog.protocol import properties as names

WAIT_SECONDS: Final = 1.0
"""How long one look for messages takes; a stop ends it at once."""
PAUSE_SECONDS: Final = 5.0
"""After the brokers refused what the consumer needs."""
CANCEL_SECONDS_MAX: Final = 5.0
"""For functions that are cancelled, after the broker's `graceful_timeout`."""
BATCH_MAX: Final = 32
"""Messages of a batch by default: what the client fetches at a time."""
BATCH_MS: Final = 200

_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_%|-]+")
_CONSUMER: Final = ("ordered", "broadcast", "max_retries", "consume_timeout")
"""Arguments that the client's consumer takes as they are."""


@dataclass(kw_only=True)
class SubscriberConfig(SubscriberUsecaseConfig):
    """What a subscriber was declared with; topics without the prefix of routers."""

    _outer_config: RocketMQBrokerConfig
    topics: tuple[str, ...]
    given: SubscriberFields = field(default_factory=SubscriberFields)

    @property
    def ack_policy(self) -> AckPolicy:
        """The subscriber's, the broker's, or RocketMQ's way: what fails is delivered again."""
        for policy in (self._ack_policy, self._outer_config.ack_policy):
            if policy is not EMPTY:
                return policy
        return AckPolicy.NACK_ON_ERROR

    @property
    def filter(self) -> str | Sql:
        """The tags or the expression of all topics."""
        sql = self.given.get("sql", "")
        return Sql(sql) if sql else self.given.get("tags", "*")

    @property
    def bad_body(self) -> Bad:
        """Where unreadable bodies go: as the subscriber says, else as the broker."""
        return self.given.get("bad_body") or self._outer_config.bad_body


@dataclass(kw_only=True)
class SubscriberDescription(SubscriberSpecificationConfig):
    """What the AsyncAPI document says of a subscriber."""

    topics: tuple[str, ...]


class RocketMQSubscriberSpecification(
    SubscriberSpecification[RocketMQBrokerConfig, SubscriberDescription]
):
    """One channel for each topic."""

    @property
    def channel_labels(self) -> list[str]:
        """The topics, with the prefix of routers."""
        prefix = self._outer_config.prefix
        return list(dict.fromkeys(f"{prefix}{topic}" for topic in self.config.topics))

    def get_schema(self) -> dict[str, SubscriberSpec]:
        """Return the channels by key."""
        payloads = self.get_payloads()
        topics = self.channel_labels
        found = {}
        for topic in topics:
            key = self._channel_key(topic, split=len(topics) > 1)
            message = Message(title=f"{key}:Message", payload=resolve_payloads(payloads))
            found[key] = SubscriberSpec(
                address=topic,
                description=self.description,
                operation=Operation(message=message, bindings=None),
                bindings=None,
            )
        return found


class ReplyPublisher(FakePublisher):
    """Publishes what a function returns to who asked: the waiting client, or a topic."""

    def __init__(self, producer: RocketMQProducer, message: StreamMessage[Any]) -> None:
        super().__init__(producer=producer)
        self._message = message

    def patch_command(self, cmd: PublishCommand) -> RocketMQPublishCommand:
        """Return the command with its destination."""
        reply = RocketMQPublishCommand.from_cmd(super().patch_command(cmd))
        raw = self._message.raw_message
        first = raw[0] if isinstance(raw, tuple) else raw
        if self._message.reply_to == first.properties.get(names.REPLY_TO_CLIENT):
            reply.request = first
        else:
            reply.destination = self._message.reply_to
        return reply


class RocketMQSubscriber(SubscriberUsecase[Any]):
    """See the module.

    consumer: the client's, None unless it runs.
    """

    _outer_config: RocketMQBrokerConfig

    def __init__(
        self,
        config: SubscriberConfig,
        specification: SubscriberSpecification[Any, Any],
        calls: CallsCollection[Any],
    ) -> None:
        given = config.given
        self.is_batch = given.get("batch", False)
        if self.is_batch:
            batches = BatchParser()
            config.parser, config.decoder = batches.parse_batch, batches.decode_batch
        else:
            single = MessageParser()
            config.parser, config.decoder = single.parse_message, single.decode_message
        super().__init__(config, specification, calls)
        self.config = config
        self.consumer: Consumer | None = None
        self._workers_max = given.get("max_workers", 1)
        self._take_max = given.get("max_records", BATCH_MAX) if self.is_batch else 1
        self._wait_seconds = WAIT_SECONDS
        if self.is_batch:
            self._wait_seconds = given.get("batch_timeout_ms", BATCH_MS) / 1000
        self._tasks: set[asyncio.Task[Any]] = set()
        self._leaving: asyncio.Future[None] | None = None

    @property
    def topics(self) -> list[str]:
        """The topics, with the prefix of routers."""
        return [f"{self._outer_config.prefix}{topic}" for topic in self.config.topics]

    @property
    def group_id(self) -> str:
        """The consumer group: the one given, or topics and function, which other apps lack."""
        given = self.config.given.get("group_id")
        return given or _FOREIGN.sub("_", "-".join([*self.topics, self.specification.call_name]))

    @property
    def _broker_middlewares(self) -> Sequence[Any]:
        middlewares = super()._broker_middlewares
        goes = self.config.bad_body
        if goes == "raise":
            return middlewares
        return (BadBodies(goes, self._outer_config.logger), *middlewares)

    # Begin and end

    async def start(self) -> None:
        """Join the group, and begin to consume. Raises: ClientError."""
        await super().start()
        self._leaving = None
        clients = self._outer_config.clients
        if self._outer_config.creates_topics:
            for topic, error in (await clients.create_topics(self.topics)).items():
                self._log(logging.WARNING, f"topic {topic} is not created: {error}")
        given = self.config.given
        options = {name: given[name] for name in _CONSUMER if name in given}
        consumer = clients.consumer(
            group=self.group_id,
            topics=dict.fromkeys(self.topics, self.config.filter),
            start=start_of(given),
            **options,
        )
        try:
            await consumer.start()
        except BaseException:
            await consumer.close()
            raise
        self.consumer = consumer
        self._post_start()
        if self.calls:
            self._keep(self._run(consumer))

    async def stop(self) -> None:
        """Let running functions end, for the broker's `graceful_timeout`, and leave the group.

        A function may stop its own subscriber, while the broker stops it, too: it leaves once.
        """
        if self._leaving is None:
            self._leaving = awaited(self._leave(asyncio.current_task()))
        await asyncio.shield(self._leaving)

    async def _leave(self, caller: asyncio.Task[Any] | None) -> None:
        await super().stop()
        tasks = self._tasks - {caller}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS_MAX)
        consumer, self.consumer = self.consumer, None
        if consumer is not None:
            await consumer.close()

    def _keep(self, coroutine: Any) -> asyncio.Task[Any]:
        task = run_once(coroutine, self._failed)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _failed(self, error: Exception) -> None:
        self._log(logging.ERROR, f"a task of a subscriber ended: {error!r}", exc_info=error)

    # Messages

    async def _run(self, consumer: Consumer) -> None:
        """Take messages, and give each to the function, until the subscriber stops."""
        room = asyncio.Semaphore(self._workers_max)
        while self.running and consumer.is_open:
            await room.acquire()
            try:
                taken = await consumer.fetch(self._take_max, self._wait_seconds)
            except ClientError as error:
                room.release()
                self._log(logging.ERROR, f"nothing is consumed: {error}", exc_info=error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if not taken:
                room.release()
                continue
            task = self._keep(self.consume(tuple(taken) if self.is_batch else taken[0]))
            task.add_done_callback(lambda _: room.release())

    async def get_one(self, *, timeout: float = 5.0) -> RocketMQMessage | None:
        """Return the next message or batch, None if there is none within `timeout` seconds.

        It is the caller's to settle, but with `ACK_FIRST`. Raises: ClientError.
        """
        consumer = self._consumer_of_caller()
        taken = await consumer.fetch(self._take_max, timeout)
        return await self._processed(taken) if taken else None

    async def __aiter__(self) -> AsyncIterator[RocketMQMessage]:
        """Yield messages, or batches, until the subscriber stops. Raises: ClientError."""
        consumer = self._consumer_of_caller()
        while consumer.is_open:
            if taken := await consumer.fetch(self._take_max, self._wait_seconds):
                yield await self._processed(taken)

    def _consumer_of_caller(self) -> Consumer:
        assert not self.calls, "Functions get the messages of this subscriber. Make another one."
        assert self.consumer, "The subscriber does not run. Call `start()` first."
        return self.consumer

    async def _processed(self, taken: list[ConsumerMessage]) -> RocketMQMessage:
        raw = tuple(taken) if self.is_batch else taken[0]
        context = self._outer_config.context
        parser, decoder = self._get_parser_and_decoder()
        message: Any = await process_msg(
            msg=raw,
            middlewares=(make(raw, context=context) for make in super()._broker_middlewares),
            parser=parser,
            decoder=decoder,
        )
        assert isinstance(message, RocketMQMessage)
        if self.ack_policy is AckPolicy.ACK_FIRST:
            await message.ack()
        return message

    def _make_response_publisher(self, message: StreamMessage[Any]) -> Sequence[PublisherProto]:
        return (ReplyPublisher(self._outer_config.producer, message),)

    def get_log_context(self, message: StreamMessage[Any] | None) -> dict[str, str]:
        """Return what each line of the log says."""
        context = {"topic": ",".join(self.topics), "group_id": self.group_id, "place": ""}
        raw = message.raw_message if message is not None else ()
        first = raw[0] if isinstance(raw, tuple) and raw else raw
        if isinstance(first, ConsumerMessage):
            more = f" and {len(raw) - 1} more" if isinstance(raw, tuple) and len(raw) > 1 else ""
            context |= {"topic": first.topic, "place": first.place + more}
        return {**context, "message_id": getattr(message, "message_id", "")}


def make_subscriber(
    topics: tuple[str, ...], given: SubscriberFields, config: RocketMQBrokerConfig
) -> RocketMQSubscriber:
    """Return a subscriber. Raises: SetupError for arguments that cannot be together."""
    check_names("arguments", given, SubscriberFields)
    if not topics:
        raise SetupError("No topic is given. Give one or several.")
    if given.get("sql") and given.get("tags", "*") != "*":
        raise SetupError("tags and sql are both given. Name the tags in sql: TAGS = 'paid'.")
    check_values(given)
    start_of(given)
    plain_bad_body(given.get("bad_body") or config.bad_body)
    calls = CallsCollection[Any]()
    specification = RocketMQSubscriberSpecification(
        config,
        SubscriberDescription(
            topics=topics,
            title_=given.get("title"),
            description_=given.get("description"),
            include_in_schema=given.get("include_in_schema", True),
        ),
        calls,
    )
    subscriber = SubscriberConfig(
        topics=topics,
        given=given,
        no_reply=given.get("no_reply", False),
        _outer_config=config,
        _ack_policy=given.get("ack_policy", EMPTY),
    )
    return RocketMQSubscriber(subscriber, specification, calls)
