"""QueuePuller: reads a queue for a person, without a group that moves.

Invariants: at most `PULL_MAX` messages of each queue are in memory, besides the last ones wanted.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from wakelog.client.admin import records
from wakelog.client.broker_calls import BrokerCalls
from wakelog.client.message_filter import Accepts
from wakelog.client.received import ReceivedMessage
from wakelog.client.route import QueueAt
from wakelog.protocol.codes import ResponseCode

PULL_MAX: Final = 32
HOLD_MS: Final = 2_000
"""How long a broker waits for a new message; below the time that a request may take."""
FOLLOWED_MAX: Final = 32
"""Queues that are waited at at the same time; a client has so many calls under way."""


class QueuePuller:
    """Reads one queue from an offset on; one loop."""

    def __init__(
        self,
        calls: BrokerCalls,
        queue: QueueAt,
        offset: int,
        end: int,
        tags: str,
        accepts: Accepts,
        since_ms: int = 0,
        sql: str = "",
    ) -> None:
        """Pull nothing yet. end: the offset after the last message that `fill` reads.

        sql: an expression by which the broker filters, instead of the tags.
        """
        self.offset = offset
        self.messages: deque[ReceivedMessage] = deque()
        self._calls, self.queue, self._end = calls, queue, end
        self._tags, self._accepts, self._since_ms = tags or "*", accepts, since_ms
        self.sql = sql

    async def fill(self) -> bool:
        """Return whether there is a message; pull until then, or until the end."""
        while not self.messages and self.offset < self._end:
            count = min(PULL_MAX, self._end - self.offset)
            self.messages.extend(x for x in await self.pull(count) if x.queue_offset < self._end)
        return bool(self.messages)

    async def pull(self, count: int = PULL_MAX, hold_ms: int = 0) -> list[ReceivedMessage]:
        """Return the next messages that are accepted, maybe none. Raises: ClientError."""
        before = self.offset
        pulled = await self._calls.pull(
            self.queue,
            before,
            count,
            self.sql or self._tags,
            hold_ms=hold_ms,
            expression_type="SQL92" if self.sql else "TAG",
        )
        self.offset = pulled.next_offset
        if pulled.code == ResponseCode.PULL_NOT_FOUND and not hold_ms:
            self.offset = max(self.offset, self._end)  # the end has moved back: nothing is left
        found = (ReceivedMessage(x, broker=self.queue.broker) for x in records(pulled.body))
        return [
            each
            for each in found
            if each.record.store_timestamp_ms >= self._since_ms and self._accepts(each)
        ]


async def merged(pullers: list[QueuePuller]) -> AsyncIterator[ReceivedMessage]:
    """Yield the messages of queues by the time at which they were stored."""
    while True:
        await asyncio.gather(*(each.fill() for each in pullers))
        waiting = [each for each in pullers if each.messages]
        if not waiting:
            return
        first = min(waiting, key=lambda each: each.messages[0].record.store_timestamp_ms)
        yield first.messages.popleft()
        while first.messages and len(waiting) == 1:
            yield first.messages.popleft()
