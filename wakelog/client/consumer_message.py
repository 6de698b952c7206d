"""ConsumerMessage: a received message, with what its consumer's user may do with it.

Source: org.apache.rocketmq.client.impl.consumer.PullAPIWrapper#processPullResult,
DefaultMQPushConsumerImpl#resetRetryAndNamespace (4.9.3).
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple, Protocol

from wakelog.client.errors import ClientError
from wakelog.client.received import ReceivedMessage
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.names import RETRY_PREFIX
from wakelog.protocol.properties import RETRY_TOPIC
from wakelog.protocol.record import MessageRecord, decode_record


class Settler(Protocol):
    """The consumer that gave a message to its user.

    namespace: of its topics, "" for none.
    """

    namespace: str

    async def ack(self, message: "ConsumerMessage") -> None:
        """Consider it consumed."""
        ...

    async def nack(self, message: "ConsumerMessage", delay: timedelta | None) -> None:
        """Have it consumed again."""
        ...

    async def reject(self, message: "ConsumerMessage") -> None:
        """Make it a dead letter."""
        ...

    async def reply(
        self, message: "ConsumerMessage", body: bytes | str, properties: Mapping[str, str] | None
    ) -> None:
        """Send the reply to a request."""
        ...


class GivenAt(NamedTuple):
    """When a message was given to the user, by the steady clock; `request_id` is of then alone."""

    request_id: str
    time_ms: int


class Elsewhere(NamedTuple):
    """The settler of a message that was copied to another process, such as a task of Ray's."""

    namespace: str

    async def ack(self, message: "ConsumerMessage") -> None:
        """Refuse. Raises: ClientError."""
        raise self._refusal(message)

    async def nack(self, message: "ConsumerMessage", delay: timedelta | None) -> None:
        """Refuse. Raises: ClientError."""
        raise self._refusal(message)

    async def reject(self, message: "ConsumerMessage") -> None:
        """Refuse. Raises: ClientError."""
        raise self._refusal(message)

    async def reply(
        self, message: "ConsumerMessage", body: bytes | str, properties: Mapping[str, str] | None
    ) -> None:
        """Refuse. Raises: ClientError."""
        raise self._refusal(message)

    def _refusal(self, message: "ConsumerMessage") -> ClientError:
        cause = f"{message!r} is a copy in another process than its consumer's"
        return ClientError(cause, "Acknowledge the original, or reply by a Producer here")


class ConsumerMessage(ReceivedMessage):
    """One message of one queue. A copy by pickle has its content, and no consumer.

    Attributes:
        queue: where it was pulled from; a message that is consumed again is in the retry topic.
        settler: the consumer that gave it.
        local_returns_count: how often it waited here to be consumed again.
        given_at: for the trace, until the message has ended; None without one.
    """

    def __init__(self, record: MessageRecord, queue: MessageQueue, settler: Settler) -> None:
        """Decode nothing yet."""
        super().__init__(record, broker=queue.broker_name, namespace=settler.namespace)
        self.queue = queue
        self.settler = settler
        self.local_returns_count = 0
        self.given_at: GivenAt | None = None

    def __getstate__(self) -> dict[str, object]:
        """Return what a copy has: the consumer stays where it is."""
        return {**self.__dict__, "settler": Elsewhere(self.namespace)}

    @property
    def full_topic(self) -> str:
        """The topic that it was sent to, also when it is consumed again, with its namespace."""
        if self.record.topic.startswith(RETRY_PREFIX):
            return self.properties.get(RETRY_TOPIC, self.record.topic)
        return self.record.topic

    @property
    def reconsume_times(self) -> int:
        """How often it was consumed before."""
        return self.record.reconsume_times + self.local_returns_count

    @property
    def size_bytes(self) -> int:
        """The size of the record."""
        return self.record.size_bytes

    async def ack(self) -> None:
        """Consider it consumed. The group's offset follows within five seconds, and at the end.

        It does nothing for a message whose queue went to another member in the meantime.
        Raises: ClientError if the consumer is not open.
        """
        await self.settler.ack(self)

    async def nack(self, delay: timedelta | None = None) -> None:
        """Have it consumed again after `delay`, or after RocketMQ's steps of 10 s to 2 h.

        The broker counts: after the group's retries, 16 by default, it is a dead letter.
        """
        await self.settler.nack(self, delay)

    async def reject(self) -> None:
        """Make it a dead letter of the group now, without a further attempt.

        A broadcast has no dead letters: the message is dropped, and the log names it.
        Raises: ClientError if the consumer is not open.
        """
        await self.settler.reject(self)

    async def reply(
        self, body: bytes | str, *, properties: Mapping[str, str] | None = None
    ) -> None:
        """Answer the producer that waits in `request`. Raises: ClientError."""
        await self.settler.reply(self, body, properties)


def decode_messages(
    body: bytes | memoryview, queue: MessageQueue, settler: Settler, tags: frozenset[str]
) -> list[ConsumerMessage]:
    """Return the messages of a pull, without those of other tags with the same hash.

    tags: the ones subscribed to, empty for all. Raises: RemoteProtocolError for a damaged record.
    """
    view, position, found = memoryview(body), 0, []
    while position < len(view):
        record = decode_record(view, position)
        message = ConsumerMessage(record, queue, settler)
        if not tags or message.tags in tags:
            found.append(message)
        position += record.size_bytes
    return found
