"""ConsumerMessage: a received message, with what its consumer's user may do with it.

The messages of a pull lie in its bytes together. Each decodes its record when somebody looks at
it for the first time; from then on it has that for itself, and shares the bytes no longer. Without
the compiled library each has its record from the beginning.

Invariants: what a message shares is at most `SHARED_BYTES_MAX`, and `SHARED_BYTES_EACH_MAX` for
each message of its pull. The messages of larger ones are decoded at once.

Source: org.apache.rocketmq.client.impl.consumer.PullAPIWrapper#processPullResult,
DefaultMQPushConsumerImpl#resetRetryAndNamespace (4.9.3).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from wakelog.client.errors import ClientError
from wakelog.client.received import ReceivedMessage
from wakelog.compiled.library import CHOICE, Library
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.names import RETRY_PREFIX
from wakelog.protocol.properties import RETRY_TOPIC
from wakelog.protocol.record import MessageRecord, decode_record
from wakelog.protocol.sys_flag import MESSAGE_COMPRESSED

SHARED_BYTES_MAX: Final = 1 << 20
"""Of the pull that a message shares: it keeps so many in memory until somebody looks at it."""
SHARED_BYTES_EACH_MAX: Final = 4 << 10
"""Of a pull, for each of its messages: one that is kept may be the last that needs them."""
_ORIGIN: Final[Callable[["ConsumerMessage"], "Origin"]] = attrgetter("_origin")

_library: Library | None = CHOICE.library


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


class Origin:
    """What the messages of one pull share.

    body: the bytes of the pull; None once a message has a record of its own.
    own: the same without the bytes, for messages that have one.
    """

    __slots__ = ("body", "own", "queue", "settler")

    def __init__(
        self, body: bytes | memoryview | None, queue: MessageQueue, settler: Settler
    ) -> None:
        """Keep them."""
        self.body, self.queue, self.settler = body, queue, settler
        self.own = self if body is None else Origin(None, queue, settler)


class Decoded:
    """An attribute that is decoded at the first look, and is the message's own from then on."""

    def __set_name__(self, owner: type, name: str) -> None:
        """Note the name."""
        self._name = name

    def __get__(self, message: "ConsumerMessage | None", owner: type) -> Any:
        """Decode it. Raises: ClientError for a body that cannot be inflated."""
        if message is None:
            return self
        origin = message._origin
        if origin.body is not None:
            message._own(decode_record(origin.body, message._begin), origin.own)
        if self._name == "body" and message.record.sys_flag & MESSAGE_COMPRESSED:
            message.body = message._inflated()
        return getattr(message, self._name)  # maybe of another thread, which did the same


class ConsumerMessage(ReceivedMessage):
    """One message of one queue. A copy by pickle has its content, and no consumer.

    Attributes:
        queue_offset: its place in the queue.
        size_bytes: the size of the record.
        local_returns_count: how often it waited here to be consumed again.
        given_at: for the trace, until the message has ended; None without one.
    """

    # What each message has; the compiled library sets these. The others are rare.
    __slots__ = ("_begin", "_origin", "queue_offset", "size_bytes")
    _begin: int
    _origin: Origin
    queue_offset: int
    size_bytes: int
    local_returns_count: int = 0
    given_at: GivenAt | None = None

    def __init__(self, record: MessageRecord, queue: MessageQueue, settler: Settler) -> None:
        """Have a record of its own."""
        self.queue_offset, self.size_bytes = record.queue_offset, record.size_bytes
        self._own(record, Origin(None, queue, settler))

    def _own(self, record: MessageRecord, origin: Origin) -> None:
        self.record, self.broker = record, origin.queue.broker_name
        self.namespace = origin.settler.namespace
        if not record.sys_flag & MESSAGE_COMPRESSED:
            self.body = record.body
        self._origin = origin  # last: then all is there

    if not TYPE_CHECKING:
        record, broker, namespace, body = Decoded(), Decoded(), Decoded(), Decoded()

    @property
    def queue(self) -> MessageQueue:
        """Where it was pulled from; a message that is consumed again is in the retry topic."""
        return self._origin.queue

    @property
    def settler(self) -> Settler:
        """The consumer that gave it."""
        return self._origin.settler

    def __getstate__(self) -> dict[str, object]:
        """Return what a copy has: the consumer stays where it is."""
        settler = Elsewhere(self.namespace)  # which decodes the record
        return {**self.__dict__, "queue": self.queue, "settler": settler}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be a copy."""
        rest = dict(state)
        self.__init__(rest["record"], rest.pop("queue"), rest.pop("settler"))  # type: ignore[misc]
        self.__dict__.update(rest)

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
    found: list[ConsumerMessage] = []
    origin, position = Origin(body, queue, settler), 0
    if _library is not None:
        found, position = _library.make_messages(body, ConsumerMessage, origin, tags)
        if len(body) > min(SHARED_BYTES_MAX, SHARED_BYTES_EACH_MAX * len(found)):
            for message in found:
                message.record  # noqa: B018 - decodes it
    view = memoryview(body)
    while position < len(view):
        record = decode_record(view, position)
        message = ConsumerMessage(record, queue, settler)
        message._origin = origin.own
        if not tags or message.tags in tags:
            found.append(message)
        position += record.size_bytes
    return found


def by_origin(
    messages: Iterable[ConsumerMessage],
) -> Mapping[Origin, Sequence[ConsumerMessage]]:
    """Return messages by what they share: the queue and the consumer are the same."""
    runs = defaultdict[Origin, list[ConsumerMessage]](list)
    for origin, run in groupby(messages, _ORIGIN):  # those of one pull stand together
        runs[origin].extend(run)
    return runs
