"""RocketMQBroker: FastStream's broker over the client of wakelog, for any RocketMQ 4.x."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Unpack

from fast_depends import dependency_provider
from faststream import AckPolicy
from faststream._internal.broker import BrokerUsecase
from faststream._internal.constants import EMPTY
from faststream._internal.context import ContextRepo
from faststream._internal.di import FastDependsConfig
from faststream.exceptions import SetupError
from faststream.message import gen_cor_id
from faststream.response import PublishType
from faststream.security import BaseSecurity
from faststream.specification.schema import BrokerSpec

from wakelog.client import Producer, Receipt
from wakelog.client.options import Target
from wakelog.client.plain import check_flags, seconds_from_now
from wakelog.client.typed import Bad
from wakelog.faststream.config import Clients, RocketMQBrokerConfig, make_logger, settings_of
from wakelog.faststream.fields import (
    BrokerFields,
    PublishFields,
    check_names,
    check_policy,
    plain_bad_body,
)
from wakelog.faststream.message import RocketMQMessage
from wakelog.faststream.producer import RocketMQProducer
from wakelog.faststream.response import REQUEST_SECONDS, RocketMQPublishCommand
from wakelog.faststream.router import RocketMQRegistrator
from wakelog.faststream.subscriber import RocketMQSubscriber

PROTOCOL_VERSION: Final = "4.9.3"
GRACEFUL_SECONDS: Final = 15.0
"""As FastStream's brokers have it."""
PING_SECONDS: Final = 0.2
"""Between two attempts of a ping."""


class RocketMQBroker(RocketMQRegistrator, BrokerUsecase[Any, Producer, RocketMQBrokerConfig]):
    """See the module. FastStream's own arguments mean what they mean for its other brokers."""

    def __init__(
        self,
        name_servers: Target = "localhost:9876",
        *,
        group: str = "faststream",
        allow_auto_create_topics: bool = True,
        bad_body: Bad = "raise",
        trace: bool = False,
        routers: Iterable[RocketMQRegistrator] = (),
        security: BaseSecurity | None = None,
        **given: Unpack[BrokerFields],
    ) -> None:
        """Make no connection yet.

        name_servers: `HOST:PORT`, several with semicolons between; or `wakelog.attach()`.
        group: the producer group. trace: notes in RMQ_SYS_TRACE_TOPIC what became of messages.
        allow_auto_create_topics: subscribers create topics that are not there.
        bad_body: where a body goes that no decoder can read, unless a subscriber says.
        security: `SASLPlaintext` with the keys of an account, or what is of TLS alone.
        Raises: InvalidArgument; SetupError for a security object that RocketMQ has nothing for, and
        for a policy that is none.
        """
        check_names("arguments", given, BrokerFields)
        check_flags(allow_auto_create_topics=allow_auto_create_topics)
        check_policy(given.get("ack_policy", EMPTY))
        if (graceful := given.get("graceful_timeout", GRACEFUL_SECONDS)) is not None:
            graceful = seconds_from_now("graceful_timeout", graceful)
        settings = settings_of(security, given)
        is_secure = bool(settings.get("tls"))
        config = RocketMQBrokerConfig(
            clients=Clients(name_servers, group, trace, **settings),
            creates_topics=allow_auto_create_topics,
            bad_body=plain_bad_body(bad_body),
            producer=RocketMQProducer(given.get("parser"), given.get("decoder")),
            broker_decoder=given.get("decoder"),
            broker_codec=given.get("codec"),
            broker_parser=given.get("parser"),
            broker_middlewares=given.get("middlewares", ()),
            logger=make_logger(
                logger=given.get("logger", EMPTY), log_level=given.get("log_level", logging.INFO)
            ),
            fd_config=FastDependsConfig(
                use_fastdepends=given.get("apply_types", True),
                serializer=given.get("serializer", EMPTY),
                provider=given.get("provider") or dependency_provider,
                context=given.get("context") or ContextRepo(),
            ),
            graceful_timeout=graceful,
            ack_policy=given.get("ack_policy", EMPTY),
            id_generator=given.get("id_generator", gen_cor_id),
            broker_dependencies=given.get("dependencies", ()),
            extra_context={"broker": self},
        )
        specification = BrokerSpec(
            description=given.get("description"),
            url=_urls(given.get("specification_url") or name_servers),
            protocol=given.get("protocol") or ("rocketmq-secure" if is_secure else "rocketmq"),
            protocol_version=given.get("protocol_version", PROTOCOL_VERSION),
            security=security,
            tags=given.get("tags", ()),
        )
        super().__init__(routers=routers, config=config, specification=specification)

    async def _connect(self) -> Producer:
        config = self.config.broker_config
        client = config.clients.producer()
        await client.start()
        config.producer.connect(client, config.fd_config._serializer, config.broker_codec)
        return client

    async def start(self) -> None:
        """Connect, and start all subscribers. Raises: ClientError; SetupError."""
        check_subscribers(self)
        await self.connect()
        await super().start()

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Let functions end, leave the groups, and send what is under way."""
        try:
            await super().stop(exc_type, exc_val, exc_tb)
        finally:
            await self.config.broker_config.producer.disconnect()
            self._connection = None

    async def publish(
        self,
        message: Any = None,
        topic: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        oneway: bool = False,
        **fields: Unpack[PublishFields],
    ) -> Receipt | None:
        """Send a message, and return where it is stored, None if `oneway`. Raises: ClientError."""
        cmd = RocketMQPublishCommand(
            message,
            topic=topic,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            reply_to=reply_to,
            oneway=oneway,
            _publish_type=PublishType.PUBLISH,
            **fields,
        )
        receipt: Receipt | None = await self._basic_publish(cmd, producer=self.config.producer)
        return receipt

    async def publish_batch(  # type: ignore[override]
        self,
        *messages: Any,
        topic: str = "",
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        oneway: bool = False,
        **fields: Unpack[PublishFields],
    ) -> Sequence[Receipt]:
        """Send messages in batches; a `RocketMQResponse` has fields of its own.

        Raises: NotAcknowledged, whose `receipts` say which are stored; InvalidArgument.
        """
        cmd = RocketMQPublishCommand(
            *messages,
            topic=topic,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            reply_to=reply_to,
            oneway=oneway,
            _publish_type=PublishType.PUBLISH,
            **fields,
        )
        receipts: Sequence[Receipt] = await self._basic_publish_batch(
            cmd, producer=self.config.producer
        )
        return receipts

    async def request(  # type: ignore[override]
        self,
        message: Any = None,
        topic: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        timeout: timedelta | float = REQUEST_SECONDS,
        **fields: Unpack[PublishFields],
    ) -> RocketMQMessage:
        """Send a request, and return the reply of who got it. Raises: TimeoutError; ClientError."""
        cmd = RocketMQPublishCommand(
            message,
            topic=topic,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            timeout=timeout,
            _publish_type=PublishType.REQUEST,
            **fields,
        )
        reply: RocketMQMessage = await self._basic_request(cmd, producer=self.config.producer)
        return reply

    async def ping(self, timeout: float | None) -> bool:
        """Tell whether a name server answers that knows a broker, within `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while not await self.config.broker_config.clients.answer():
                    await asyncio.sleep(PING_SECONDS)
        except TimeoutError:
            return False
        return True


def check_subscribers(broker: RocketMQBroker) -> None:
    """Check that members of one group want the same, and what each wants. Raises: SetupError.

    Brokers know one subscription for each topic of a group: others would lose messages.
    """
    seen: dict[str, RocketMQSubscriber] = {}
    for subscriber in broker.subscribers:
        assert isinstance(subscriber, RocketMQSubscriber)
        goes = subscriber.config.bad_body
        if goes == "dead_letters" and subscriber.ack_policy is AckPolicy.ACK_FIRST:
            cause = f"Group {subscriber.group_id!r} acknowledges before a body is read."
            raise SetupError(f"{cause} Give bad_body='skip', or another ack_policy.")
        other = seen.setdefault(subscriber.group_id, subscriber)
        if other is subscriber:
            continue
        name = subscriber.group_id
        if not subscriber.config.given.get("group_id"):
            cause = f"Two functions of one name and topic would be one group, {name!r}."
            raise SetupError(f"{cause} Give each a group_id.")
        wanted, others = ((sorted(each.topics), each.config.filter) for each in (subscriber, other))
        if wanted != others:
            cause = f"Group {name!r} has two subscriptions, {wanted} and {others}."
            raise SetupError(f"{cause} Give each a group_id of its own.")


def _urls(given: Target | Iterable[str]) -> list[str]:
    """Return addresses for the AsyncAPI document; of a cluster that is attached, its own."""
    if isinstance(given, str):
        return given.split(";")
    return list(given if isinstance(given, Iterable) else given.name_servers)
