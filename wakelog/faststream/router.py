"""Where subscribers and publishers are declared: what brokers and routers have in common."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, Unpack, cast, overload

from fast_depends.dependencies import Dependant
from faststream._internal.broker.registrator import Registrator
from faststream._internal.broker.router import ArgsContainer, BrokerRouter, SubscriberRoute
from faststream._internal.constants import EMPTY
from faststream._internal.parser import CodecProto
from faststream._internal.types import BrokerMiddleware, CustomCallable
from faststream.exceptions import SetupError
from faststream.middlewares import AckPolicy

from wakelog.faststream.config import RocketMQBrokerConfig
from wakelog.faststream.fields import PublisherFields, SubscriberFields
from wakelog.faststream.publisher import BatchTopicPublisher, TopicPublisher, make_publisher
from wakelog.faststream.subscriber import RocketMQSubscriber, make_subscriber


class RocketMQRegistrator(Registrator[Any, RocketMQBrokerConfig]):
    """See the module. `SubscriberFields` and `PublisherFields` have the keywords."""

    def subscriber(  # type: ignore[override]
        self, *topics: str, **given: Unpack[SubscriberFields]
    ) -> RocketMQSubscriber:
        """Return a subscriber of topics, a decorator of functions. Raises: SetupError."""
        subscriber = make_subscriber(topics, given, cast(RocketMQBrokerConfig, self.config))
        super().subscriber(subscriber, persistent=given.get("persistent", True))
        return subscriber.add_call(
            parser_=given.get("parser"),
            decoder_=given.get("decoder"),
            dependencies_=given.get("dependencies", ()),
            codec_=given.get("codec"),
        )

    @overload  # type: ignore[override]
    def publisher(
        self, topic: str, *, batch: Literal[True], **given: Unpack[PublisherFields]
    ) -> BatchTopicPublisher: ...

    @overload
    def publisher(
        self, topic: str, *, batch: Literal[False] = False, **given: Unpack[PublisherFields]
    ) -> TopicPublisher: ...

    def publisher(
        self, topic: str, *, batch: bool = False, **given: Unpack[PublisherFields]
    ) -> TopicPublisher:
        """Return a publisher to a topic, also a decorator of functions."""
        config = cast(RocketMQBrokerConfig, self.config)
        publisher = make_publisher(topic, given, config, batch=batch)
        super().publisher(publisher, persistent=given.get("persistent", True))
        return publisher

    def include_router(
        self,
        router: Registrator[Any, Any],
        *,
        prefix: str = "",
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any]] = (),
        include_in_schema: bool | None = None,
    ) -> None:
        """Take what a router has declared. Raises: SetupError for one of another broker."""
        if not isinstance(router, RocketMQRegistrator):
            raise SetupError(f"{type(router).__name__} is no router of RocketMQ.")
        super().include_router(
            router,
            prefix=prefix,
            dependencies=dependencies,
            middlewares=middlewares,
            include_in_schema=include_in_schema,
        )


class RocketMQPublisher(ArgsContainer):
    """A publisher to be, for the `publishers` of a route."""

    def __init__(
        self, topic: str, *, batch: bool = False, **given: Unpack[PublisherFields]
    ) -> None:
        """Keep the arguments of `publisher`."""
        super().__init__(topic, batch=batch, **given)


class RocketMQRoute(SubscriberRoute):
    """A subscriber to be, for the `handlers` of a router."""

    def __init__(
        self,
        call: Callable[..., Any] | Callable[..., Awaitable[Any]],
        *topics: str,
        publishers: Iterable[RocketMQPublisher] = (),
        **given: Unpack[SubscriberFields],
    ) -> None:
        """Keep the function and the arguments of `subscriber`."""
        super().__init__(call, *topics, publishers=publishers, **given)


class RocketMQRouter(RocketMQRegistrator, BrokerRouter[Any, RocketMQBrokerConfig]):
    """Declares subscribers and publishers apart from a broker, which includes it."""

    def __init__(
        self,
        prefix: str = "",
        handlers: Iterable[RocketMQRoute] = (),
        *,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any]] = (),
        routers: Iterable[RocketMQRegistrator] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        ack_policy: AckPolicy = EMPTY,
        include_in_schema: bool | None = None,
    ) -> None:
        """prefix: before the names of topics. middlewares: within those of the broker."""
        super().__init__(
            handlers=handlers,
            config=RocketMQBrokerConfig(
                prefix=prefix,
                broker_middlewares=middlewares,
                broker_dependencies=dependencies,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                ack_policy=ack_policy,
                include_in_schema=include_in_schema,
            ),
            routers=routers,
        )
