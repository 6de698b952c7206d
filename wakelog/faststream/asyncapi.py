"""AsyncAPI documents that say what RocketMQ knows of a channel: group, filter and order.

AsyncAPI has no binding of RocketMQ, and FastStream none to add one by. So this factory completes
the document with `x-rocketmq`, an extension that AsyncAPI's rules for bindings allow.
"""

from typing import Any

from faststream.specification import AsyncAPI as FastStreamAsyncAPI
from faststream.specification.asyncapi.utils import clear_key
from faststream.specification.base import Specification

from wakelog.client import Sql
from wakelog.faststream.publisher import TopicPublisher
from wakelog.faststream.subscriber import RocketMQSubscriber

BINDING = "x-rocketmq"


class AsyncAPI(FastStreamAsyncAPI):
    """See the module: `FastStream(broker, specification=AsyncAPI())`."""

    def to_specification(self) -> Specification:
        """Return the document."""
        document: Any = super().to_specification()
        bindings = self._bindings()
        for key, channel in document.channels.items():
            if key in bindings:
                model = type(channel).model_fields["bindings"].annotation.__args__[0]
                channel.bindings = model(**{BINDING: bindings[key]})
        return document  # type: ignore[no-any-return]

    def _bindings(self) -> dict[str, dict[str, Any]]:
        """Return what there is to say, by the key of the channel."""
        found: dict[str, dict[str, Any]] = {}
        for broker in self.brokers:
            for subscriber in broker.subscribers:
                shown = subscriber.specification.include_in_schema
                if isinstance(subscriber, RocketMQSubscriber) and shown:
                    for key, channel in subscriber.specification.get_schema().items():
                        found[clear_key(key)] = _of_subscriber(subscriber, str(channel.address))
            for publisher in broker.publishers:
                if isinstance(publisher, TopicPublisher):
                    binding = {"topic": publisher.topic, "batch": publisher.is_batch}
                    found[clear_key(publisher.specification.name)] = binding
        return found


def _of_subscriber(subscriber: RocketMQSubscriber, topic: str) -> dict[str, Any]:
    given, wanted = subscriber.config.given, subscriber.config.filter
    kind = {"sql": wanted.expression} if isinstance(wanted, Sql) else {"tags": wanted}
    return {
        "topic": topic,
        "group": subscriber.group_id,
        **kind,
        "ordered": given.get("ordered", False),
        "broadcast": given.get("broadcast", False),
        "batch": subscriber.is_batch,
    }
