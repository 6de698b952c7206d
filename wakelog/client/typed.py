"""Typed views of a producer and of a consumer: values in place of bodies.

    orders = TypedConsumer(consumer, JsonCodec(Order))
    async for message in orders:
        print(message.value.price)
        await message.ack()

A body that the codec cannot read goes where the user said: an error, nowhere, or among the dead
letters. Each is a line in the log `wakelog.client`, with its queue, its offset and the reason.

Invariants: a message with a bad body is settled, or still in hand; `fetch` gives every other
message of the same call again.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final, Generic, Literal, TypeAlias, TypeVar, Unpack, get_args

from wakelog.client.codecs import Codec
from wakelog.client.consumer import FETCH_MAX, Consumer
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.errors import ClientError, InvalidArgument
from wakelog.client.messages import Message, MessageFields
from wakelog.client.plain import check_kind, not_accepted
from wakelog.client.producer import Producer
from wakelog.client.receipts import Receipt
from wakelog.client.retry_policy import RetryPolicy

Value = TypeVar("Value")

Bad: TypeAlias = Literal["raise", "skip", "dead_letters"]
"""Where a message goes whose body cannot be read."""

Handler: TypeAlias = Callable[[Value], Awaitable[None]]

logger: Final = logging.getLogger("wakelog.client")


class BadBody(ClientError):
    """A codec could not read the body of a message, which waits for `ack`, `nack` or `reject`.

    message: with the topic, the queue and the offset. reason: what the codec said.
    """

    def __init__(self, message: ConsumerMessage, reason: Exception) -> None:
        """Name the place."""
        self.message, self.reason = message, reason
        remedy = "Settle `error.message`, or give the consumer bad='skip' or bad='dead_letters'"
        super().__init__(_unreadable(message, reason), remedy)

    def __reduce__(self) -> tuple[object, ...]:
        """Be made again from the same parts, in another process."""
        return type(self), (self.message, self.reason)


class TypedMessage(Generic[Value]):
    """A message whose body was read. value: what it holds. message: all else of it."""

    def __init__(self, value: Value, message: ConsumerMessage) -> None:
        """Keep both."""
        self.value = value
        self.message = message

    async def ack(self) -> None:
        """Consider it consumed: see `ConsumerMessage.ack`."""
        await self.message.ack()

    async def nack(self, delay: timedelta | None = None) -> None:
        """Have it consumed again: see `ConsumerMessage.nack`."""
        await self.message.nack(delay)

    async def reject(self) -> None:
        """Make it a dead letter: see `ConsumerMessage.reject`."""
        await self.message.reject()


class TypedProducer(Generic[Value]):
    """A view of a producer, which stays the user's to open and to close."""

    def __init__(self, producer: Producer, codec: Codec[Value], topic: str) -> None:
        """topic: where all values go. Raises: InvalidArgument."""
        check_kind("producer", producer, Producer)
        self._producer, self._codec, self._topic = producer, _checked(codec), topic

    async def send(self, value: Value, **fields: Unpack[MessageFields]) -> Receipt:
        """Send a value: see `Producer.send`.

        Raises: InvalidArgument, also for a value that cannot be encoded; NotAcknowledged.
        """
        return await self._producer.send(self._topic, self._encode(value), **fields)

    async def send_many(
        self, values: Iterable[Value], **fields: Unpack[MessageFields]
    ) -> Sequence[Receipt]:
        """Send values in batches: see `Producer.send_many`. fields: of all messages.

        Raises: InvalidArgument, and nothing was sent; NotAcknowledged.
        """
        bodies = list(map(self._encode, values))
        return await self._producer.send_many(Message(self._topic, x, **fields) for x in bodies)

    def _encode(self, value: Value) -> bytes:
        try:
            return self._codec.encode(value)
        except Exception as error:
            cause = f"a value for topic {self._topic} cannot be encoded: {error}"
            raise InvalidArgument(cause, "Give what the codec takes; nothing was sent") from error


class TypedConsumer(Generic[Value]):
    """A view of a consumer, which stays the user's to open and to close.

    bad_count: messages whose bodies could not be read.
    """

    def __init__(self, consumer: Consumer, codec: Codec[Value], *, bad: Bad = "raise") -> None:
        """bad: where a message goes whose body cannot be read. Raises: InvalidArgument."""
        check_kind("consumer", consumer, Consumer)
        if bad not in get_args(Bad):
            raise not_accepted("bad", bad, "'raise', 'skip' or 'dead_letters'")
        self._consumer, self._codec, self._bad = consumer, _checked(codec), bad
        self.bad_count = 0

    async def fetch(
        self, max: int = FETCH_MAX, wait: float | timedelta = 1.0
    ) -> list[TypedMessage[Value]]:
        """Return up to `max` messages, after `wait` at the latest; maybe none.

        Raises: BadBody, and gives the others again; ClientError as `Consumer.fetch` does.
        """
        messages = await self._consumer.fetch(max, wait)
        found: list[TypedMessage[Value]] = []
        for place, message in enumerate(messages):
            try:
                read = await self._read(message)
            except BaseException as error:
                kept = [each.message for each in found]
                first = place + 1 if isinstance(error, BadBody) else place
                self._consumer.untake([*kept, *messages[first:]])
                raise
            if read is not None:
                found.append(read)
        return found

    async def __aiter__(self) -> AsyncIterator[TypedMessage[Value]]:
        """Yield messages until the consumer is closed. Raises: BadBody; ClientError."""
        async for message in self._consumer:
            if (read := await self._read(message)) is not None:
                yield read

    async def run(self, handler: Handler[Value], retry: RetryPolicy | None = None) -> None:
        """Work on the values, one after the other, until the consumer is closed.

        A value is acknowledged after the handler. If that raises an Exception, `retry` says when
        the message comes again, or that it is a dead letter. It is a line in the log, too.
        Raises: BadBody; ClientError.
        """
        policy = RetryPolicy() if retry is None else retry
        check_kind("retry", policy, RetryPolicy)
        async for read in self:
            try:
                await handler(read.value)
            except Exception as error:
                await self._retry(read.message, error, policy)
            else:
                await read.ack()

    async def _retry(self, message: ConsumerMessage, error: Exception, policy: RetryPolicy) -> None:
        delay = policy.delay_after(error, message.reconsume_times)
        becomes = "is a dead letter" if delay is None else f"comes again after {delay}"
        logger.warning("%r %s: %s: %s", message, becomes, type(error).__name__, error)
        await (message.reject() if delay is None else message.nack(delay))

    async def _read(self, message: ConsumerMessage) -> TypedMessage[Value] | None:
        """Return the message with its value, None if it went elsewhere. Raises: BadBody."""
        try:
            return TypedMessage(self._codec.decode(message.body), message)
        except Exception as error:
            self.bad_count += 1
            if self._bad == "raise":
                raise BadBody(message, error) from error
            word = "skipped" if self._bad == "skip" else "a dead letter"
            logger.warning("%s; it is %s", _unreadable(message, error), word)
        await (message.ack() if self._bad == "skip" else message.reject())
        return None


def _checked(codec: Codec[Value]) -> Codec[Value]:
    if not callable(getattr(codec, "encode", None)) or not callable(getattr(codec, "decode", None)):
        raise not_accepted("codec", codec, "an object with encode and decode, as JsonCodec(Order)")
    return codec


def _unreadable(message: ConsumerMessage, reason: Exception) -> str:
    said = " ".join(f"{type(reason).__name__}: {reason}".split()).rstrip(".")
    return f"the body of the message at {message.place} cannot be read: {said}"
