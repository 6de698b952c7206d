"""RocketMQMessage: one message, or a batch of them, as FastStream's functions see it.

`ack` ends it, `nack` has RocketMQ deliver it again after its steps or a `delay`, and `reject` makes
it a dead letter at once. What was settled stays so: further calls do nothing.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from faststream._internal.basic_types import DecodedMessage
from faststream.message import StreamMessage, decode_message

from wakelog.client import ClientError, ConsumerMessage, ReceivedMessage
from wakelog.client.messages import OWN_PROPERTIES, SHARDING_KEY
from wakelog.protocol import properties as names

CONTENT_TYPE: Final = "content-type"
CORRELATION_ID: Final = "correlation_id"
REPLY_TO: Final = "reply_to"
EMPTY: Final = "empty-body"
"""A header of messages without a body: RocketMQ stores none, so `EMPTY_BODY` travels."""
EMPTY_BODY: Final = b"null"

OF_ROCKETMQ: Final = OWN_PROPERTIES | {
    names.TAGS, names.KEYS, names.DELAY, names.INSTANCE_ID, names.CORRELATION_ID,
    names.MESSAGE_TYPE, names.TIME_TO_LIVE, names.REPLY_TO_CLIENT, names.PUSH_REPLY_TIME,
    SHARDING_KEY,
}  # fmt: skip
"""Properties that are no headers."""


class RocketMQMessage(StreamMessage[Any]):
    """See the module.

    raw_message: what the client gave, a `ConsumerMessage`; a tuple of them if it is a batch.
    """

    @property
    def raw_messages(self) -> tuple[ReceivedMessage, ...]:
        """The message, or those of the batch."""
        return self.raw_message if isinstance(self.raw_message, tuple) else (self.raw_message,)

    @property
    def _in_hand(self) -> list[ConsumerMessage]:
        """Those that wait to be settled: a reply does not."""
        return [each for each in self.raw_messages if isinstance(each, ConsumerMessage)]

    async def decode(self) -> Any:
        """Return the body as the decoder reads it. Raises: ClientError, and what it raises."""
        for raw in self.raw_messages:
            if error := damage_of(raw):
                raise error
        return await super().decode()

    async def ack(self) -> None:
        """Consider it consumed. Raises: ClientError."""
        if self.committed is None:
            for raw in self._in_hand:
                await raw.ack()
        await super().ack()

    async def nack(self, delay: timedelta | float | None = None) -> None:
        """Have it delivered again. Raises: ClientError.

        delay: seconds, or a timedelta; RocketMQ's steps of 10 s to 2 h without it.
        """
        if self.committed is None:
            after = timedelta(seconds=delay) if isinstance(delay, int | float) else delay
            for raw in self._in_hand:
                await raw.nack(after)
        await super().nack()

    async def reject(self) -> None:
        """Make it a dead letter of the group. Raises: ClientError."""
        if self.committed is None:
            for raw in self._in_hand:
                await raw.reject()
        await super().reject()


def damage_of(raw: ReceivedMessage) -> ClientError | None:
    """Return why a body cannot be inflated, None for one that can."""
    try:
        _ = raw.body
    except ClientError as error:
        return error
    return None


def headers_of(raw: ReceivedMessage) -> dict[str, str]:
    """Return the properties that its producer gave it."""
    return {name: text for name, text in raw.properties.items() if name not in OF_ROCKETMQ}


class MessageParser:
    """From what the client gives to what FastStream works with, one message each."""

    async def parse_message(self, raw: ReceivedMessage) -> RocketMQMessage:
        """Return a message; one whose body cannot be inflated says so when it is decoded."""
        headers = headers_of(raw)
        is_empty = headers.pop(EMPTY, "") or damage_of(raw)
        return RocketMQMessage(
            raw_message=raw,
            body=b"" if is_empty else raw.body,
            headers=headers,
            reply_to=headers.get(REPLY_TO) or raw.properties.get(names.REPLY_TO_CLIENT, ""),
            content_type=headers.get(CONTENT_TYPE),
            message_id=raw.message_id,
            correlation_id=headers.get(CORRELATION_ID),
        )

    async def decode_message(self, message: StreamMessage[Any]) -> DecodedMessage:
        """Return a body by its content type."""
        return decode_message(message)


class BatchParser(MessageParser):
    """The same for a tuple of messages."""

    async def parse_batch(self, raw: Sequence[ReceivedMessage]) -> RocketMQMessage:
        """Return the messages as one. Reply and correlation id are those of the first."""
        parsed = [await self.parse_message(each) for each in raw]
        first = parsed[0]
        return RocketMQMessage(
            raw_message=tuple(raw),
            body=[each.body for each in parsed],
            headers=first.headers,
            batch_headers=[each.headers for each in parsed],
            reply_to=first.reply_to,
            content_type=first.content_type,
            message_id=first.message_id,
            correlation_id=first.correlation_id,
        )

    async def decode_batch(self, message: StreamMessage[Any]) -> list[DecodedMessage]:
        """Return the bodies, each by its own content type."""
        parsed = [await self.parse_message(each) for each in message.raw_message]
        return [decode_message(each) for each in parsed]
