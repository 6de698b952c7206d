"""Bodies that no decoder can read: aside or nowhere, as the user said, with a line in the log.

With `raise` this middleware is not there: the decoder's error is one of the function, and
`ack_policy` decides. Of a batch the unreadable messages are taken out, and the function gets the
others. Filters and the user's middlewares that decode by themselves come first.
"""

import logging
from copy import copy
from typing import Any

from faststream import BaseMiddleware
from faststream._internal.basic_types import AsyncFuncAny
from faststream._internal.context import ContextRepo
from faststream._internal.logger import LoggerState
from faststream.exceptions import HandlerException
from faststream.message import StreamMessage

from wakelog.client import ConsumerMessage
from wakelog.client.typed import Bad
from wakelog.faststream.message import RocketMQMessage


class Unreadable(HandlerException):
    """No message is left for the function: all are settled, and FastStream settles none again."""


class BadBodies:
    """Makes the middleware of each message (BrokerMiddleware)."""

    def __init__(self, goes: Bad, logger: LoggerState) -> None:
        """goes: `skip` or `dead_letters`."""
        self.goes = goes
        self.logger = logger

    def __call__(self, msg: Any, /, *, context: ContextRepo) -> "_BadBody":
        """Return the middleware of one message or batch."""
        return _BadBody(msg, context=context, owner=self)

    async def settle(self, raw: ConsumerMessage, error: Exception) -> None:
        """Put a message where it goes, and say so. Raises: ClientError."""
        reason = f"{type(error).__name__}: {error}"
        word = "skipped" if self.goes == "skip" else "a dead letter"
        line = f"unreadable body at {raw.place}, {word}: {reason}"
        self.logger.log(line, logging.ERROR, extra={"topic": raw.topic, "place": raw.place})
        await (raw.ack() if self.goes == "skip" else raw.reject())


class _BadBody(BaseMiddleware):
    def __init__(self, msg: Any, /, *, context: ContextRepo, owner: BadBodies) -> None:
        super().__init__(msg, context=context)
        self._owner = owner

    async def consume_scope(self, call_next: AsyncFuncAny, msg: StreamMessage[Any]) -> Any:
        try:
            await msg.decode()
        except Exception as error:
            assert isinstance(msg, RocketMQMessage)
            await self._take_out(msg, error)
        return await call_next(msg)

    async def _take_out(self, msg: RocketMQMessage, error: Exception) -> None:
        """Settle the unreadable ones. Raises: Unreadable if none is left; ClientError."""
        if not isinstance(msg.raw_message, tuple):
            await self._owner.settle(msg.raw_message, error)
            raise Unreadable(str(error)) from error
        readable = []
        for index, raw in enumerate(msg.raw_message):
            try:
                await _only(msg, [index]).decode()
            except Exception as reason:
                await self._owner.settle(raw, reason)
            else:
                readable.append(index)
        if not readable:
            raise Unreadable(str(error)) from error
        msg.__dict__.update(_only(msg, readable).__dict__)


def _only(batch: RocketMQMessage, indexes: list[int]) -> RocketMQMessage:
    """Return a batch of some messages of another, which is decoded in the same way."""
    part = copy(batch)
    part.raw_message = tuple(batch.raw_message[index] for index in indexes)
    part.body = [batch.body[index] for index in indexes]
    part.batch_headers = [batch.batch_headers[index] for index in indexes]
    return part
