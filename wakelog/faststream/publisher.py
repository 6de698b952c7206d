"""Publishers: objects that send to one topic, and decorators that send what a function returns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Unpack

from faststream._internal.configs import PublisherSpecificationConfig, PublisherUsecaseConfig
from faststream._internal.endpoint.publisher import PublisherSpecification, PublisherUsecase
from faststream._internal.types import PublisherMiddleware
from faststream.response import PublishCommand, PublishType
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, PublisherSpec

from wakelog.client import Receipt
from wakelog.faststream.config import RocketMQBrokerConfig
from wakelog.faststream.fields import PublisherFields, PublishFields, check_names
from wakelog.faststream.message import RocketMQMessage
from wakelog.faststream.response import REQUEST_SECONDS, RocketMQPublishCommand


@dataclass(kw_only=True)
class PublisherConfig(PublisherUsecaseConfig):
    """What a publisher was declared with; the topic without the prefix of routers."""

    _outer_config: RocketMQBrokerConfig
    topic: str
    headers: dict[str, Any]
    reply_to: str
    fields: PublishFields = field(default_factory=PublishFields)


@dataclass(kw_only=True)
class PublisherDescription(PublisherSpecificationConfig):
    """What the AsyncAPI document says of a publisher."""

    topic: str


class RocketMQPublisherSpecification(
    PublisherSpecification[RocketMQBrokerConfig, PublisherDescription]
):
    """One channel."""

    @property
    def topic(self) -> str:
        """The topic, with the prefix of routers."""
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def name(self) -> str:
        """The channel's key."""
        return self.config.title_ or f"{self.topic}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        """Return the channel by its key."""
        payload = resolve_payloads(self.get_payloads(), "Publisher")
        message = Message(title=f"{self.name}:Message", payload=payload)
        found = PublisherSpec(
            address=self.topic,
            description=self.config.description_,
            operation=Operation(message=message, bindings=None),
            bindings=None,
        )
        return {self.name: found}


class TopicPublisher(PublisherUsecase):
    """Sends single messages. See the module."""

    _outer_config: RocketMQBrokerConfig
    is_batch = False

    def __init__(
        self, config: PublisherConfig, specification: PublisherSpecification[Any, Any]
    ) -> None:
        super().__init__(config, specification)
        self.config = config

    @property
    def topic(self) -> str:
        """The topic, with the prefix of routers."""
        return f"{self._outer_config.prefix}{self.config.topic}"

    async def publish(
        self,
        message: Any = None,
        topic: str = "",
        *,
        headers: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        oneway: bool = False,
        **fields: Unpack[PublishFields],
    ) -> Receipt | None:
        """Send a message, with the publisher's fields where none are given. Raises: ClientError."""
        cmd = self._command(
            [message], topic, headers, correlation_id, reply_to, fields, oneway=oneway
        )
        receipt: Receipt | None = await self._basic_publish(
            cmd, producer=self._outer_config.producer, _extra_middlewares=()
        )
        return receipt

    async def request(
        self,
        message: Any = None,
        topic: str = "",
        *,
        headers: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
        timeout: timedelta | float = REQUEST_SECONDS,
        **fields: Unpack[PublishFields],
    ) -> RocketMQMessage:
        """Send a request, and return the reply. Raises: TimeoutError; ClientError."""
        cmd = self._command([message], topic, headers, correlation_id, "", fields, timeout=timeout)
        cmd.publish_type = PublishType.REQUEST
        reply: RocketMQMessage = await self._basic_request(
            cmd, producer=self._outer_config.producer
        )
        return reply

    async def _publish(
        self, cmd: PublishCommand, *, _extra_middlewares: Iterable[PublisherMiddleware]
    ) -> None:
        """Send what a function returned."""
        await self._basic_publish(
            self._completed(RocketMQPublishCommand.from_cmd(cmd)),
            producer=self._outer_config.producer,
            _extra_middlewares=_extra_middlewares,
        )

    def _command(
        self,
        messages: Sequence[Any],
        topic: str,
        headers: Mapping[str, Any] | None,
        correlation_id: str | None,
        reply_to: str,
        fields: PublishFields,
        *,
        oneway: bool = False,
        timeout: timedelta | float = REQUEST_SECONDS,
    ) -> RocketMQPublishCommand:
        cmd = RocketMQPublishCommand(
            *messages,
            topic=topic,
            headers=headers,
            correlation_id=correlation_id or self._outer_config.id_generator(),
            reply_to=reply_to,
            oneway=oneway,
            timeout=timeout,
            _publish_type=PublishType.PUBLISH,
            **fields,
        )
        return self._completed(cmd)

    def _completed(self, cmd: RocketMQPublishCommand) -> RocketMQPublishCommand:
        """Return a command with what it lacks: topic, headers and fields of the publisher."""
        cmd.destination = cmd.destination or self.topic
        cmd.add_headers(self.config.headers, override=False)
        cmd.reply_to = cmd.reply_to or self.config.reply_to
        fields: PublishFields = {**self.config.fields, **cmd.fields}
        cmd.fields = fields
        return cmd


class BatchTopicPublisher(TopicPublisher):
    """Sends batches; of a function that returns a list, each item is a message."""

    is_batch = True

    async def publish(  # type: ignore[override]
        self,
        *messages: Any,
        topic: str = "",
        headers: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        oneway: bool = False,
        **fields: Unpack[PublishFields],
    ) -> Sequence[Receipt]:
        """Send messages in batches. Raises: NotAcknowledged; InvalidArgument."""
        cmd = self._command(
            messages, topic, headers, correlation_id, reply_to, fields, oneway=oneway
        )
        receipts: Sequence[Receipt] = await self._basic_publish_batch(
            cmd, producer=self._outer_config.producer, _extra_middlewares=()
        )
        return receipts

    async def _publish(
        self, cmd: PublishCommand, *, _extra_middlewares: Iterable[PublisherMiddleware]
    ) -> None:
        """Send what a function returned; nothing is one message without a body."""
        batch = RocketMQPublishCommand.from_cmd(cmd, batch=True)
        batch.batch_bodies = batch.batch_bodies or (b"",)
        await self._basic_publish_batch(
            self._completed(batch),
            producer=self._outer_config.producer,
            _extra_middlewares=_extra_middlewares,
        )


def make_publisher(
    topic: str, given: PublisherFields, config: RocketMQBrokerConfig, *, batch: bool
) -> TopicPublisher:
    """Return a publisher of single messages, or of batches. Raises: InvalidArgument."""
    check_names("arguments", given, PublisherFields)
    fields: Any = {name: given[name] for name in PublishFields.__optional_keys__ if name in given}  # type: ignore[literal-required]
    specification = RocketMQPublisherSpecification(
        config,
        PublisherDescription(
            topic=topic,
            schema_=given.get("schema"),
            title_=given.get("title"),
            description_=given.get("description"),
            include_in_schema=given.get("include_in_schema", True),
        ),
    )
    publisher = PublisherConfig(
        topic=topic,
        headers=dict(given.get("headers") or {}),
        reply_to=given.get("reply_to", ""),
        fields=fields,
        _outer_config=config,
    )
    kind = BatchTopicPublisher if batch else TopicPublisher
    return kind(publisher, specification)
