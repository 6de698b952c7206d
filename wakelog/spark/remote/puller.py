"""Pulls one range of a queue: what an answer means, and what is asked next.

    SUCCESS                  messages; the next offset is where it says
    PULL_RETRY_IMMEDIATELY   none of the tags wanted, up to the next offset; or, by its remark,
                             messages that are being removed
    PULL_OFFSET_MOVED        the offset has expired, or is above the queue's end
    PULL_NOT_FOUND           the queue ends here, before the range does
    TOPIC_NOT_EXIST          the topic was deleted

The next pull is under way while rows are made of what came.

Where a record does not add up, the message before it is known, and those behind it are pulled one
by one until it has come alone and is passed over.

Invariants: every offset of the range is asked for; one that is not there is `DataLost`, or passed
over if `fail_on_data_loss` is false.

Source: org.apache.rocketmq.broker.processor.PullMessageProcessor#processRequest,
org.apache.rocketmq.store.DefaultMessageStore#getMessage (4.9.3).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, NamedTuple

from wakelog.client.broker_calls import BrokerCalls, Pulled
from wakelog.protocol.codes import ResponseCode
from wakelog.spark.errors import DataLost
from wakelog.spark.remote.pulled_walk import PulledWalk
from wakelog.spark.remote.query import PulledRange
from wakelog.storage.kernels.layout import QUEUE_OFFSET

REMOVING: Final = "MESSAGE_WAS_REMOVING"


class PullLimits(NamedTuple):
    """How much is gathered for a batch, and how much is asked for at once."""

    batch_rows: int
    batch_bytes: int
    pull_count: int


class Puller:
    """See the module. One loop, one thread; ended by `close`."""

    def __init__(
        self,
        calls: BrokerCalls,
        part: PulledRange,
        limits: PullLimits,
        *,
        expression: str = "*",
        fail_on_data_loss: bool = True,
        report: Callable[[int, str], None] = lambda queue_offset, reason: None,
    ) -> None:
        """Ask for nothing yet. report: is told of offsets that hold no sound record."""
        self._calls = calls
        self._part = part
        self._limits = limits
        self._expression = expression
        self._fail_on_data_loss = fail_on_data_loss
        self._report = report
        self._position = part.begin
        self._one_by_one = False
        self._ahead: asyncio.Task[Pulled] | None = None

    async def fill(self, walk: PulledWalk) -> bool:
        """Scan what comes next, enough for a batch; False if the range has ended.

        Raises: DataLost, ClientError.
        """
        while self._position < self._part.end:
            begin = self._position
            bodies = await self._gather()
            if bodies and self._scan(walk, bodies, begin):
                return True
        return False

    async def close(self) -> None:
        """Give up what is under way."""
        if self._ahead is not None:
            self._ahead.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._ahead

    async def _gather(self) -> list[bytes]:
        """Pull until there is enough; some offsets may be passed over without a body."""
        limits, begin = self._limits, self._position
        bodies: list[bytes] = []
        size_bytes = 0
        while self._position < self._part.end:
            found = await self._pull()
            next_offset = self._next_offset(found)
            if found.body:
                bodies.append(found.body)
                size_bytes += len(found.body)
            self._position = next_offset
            if self._position - begin >= limits.batch_rows or size_bytes >= limits.batch_bytes:
                break
            if self._one_by_one and bodies:
                break
        return bodies

    async def _pull(self) -> Pulled:
        """Return the answer for the position, and have the next one asked for."""
        found = await (self._ahead or self._ask(self._position))
        self._ahead = None
        follows = found.next_offset
        goes_on = found.code == ResponseCode.SUCCESS and not self._one_by_one
        if goes_on and self._position < follows < self._part.end:
            self._ahead = self._ask(follows)
            await asyncio.sleep(0)  # which is when it is sent
        return found

    def _ask(self, queue_offset: int) -> asyncio.Task[Pulled]:
        count = self._limits.pull_count
        if self._expression == "*":
            count = min(count, self._part.end - queue_offset)
        if self._one_by_one:
            count = 1
        asked = self._calls.pull(self._part.queue, queue_offset, count, self._expression)
        return asyncio.get_running_loop().create_task(asked)

    def _next_offset(self, found: Pulled) -> int:
        """Return where to go on behind an answer. Raises: DataLost."""
        position, end = self._position, self._part.end
        follows = max(found.next_offset, position)
        match found.code:
            case ResponseCode.SUCCESS:
                if position < found.min_offset:
                    self._lose(min(found.min_offset, end), "have expired")
                return follows if follows > position else position + 1
            case ResponseCode.PULL_RETRY_IMMEDIATELY:
                if found.remark != REMOVING and follows > position:
                    return follows
                return self._lose(min(max(follows, position + 1), end), "have expired")
            case ResponseCode.PULL_OFFSET_MOVED if found.min_offset > position:
                return self._lose(min(found.min_offset, end), "have expired")
            case ResponseCode.TOPIC_NOT_EXIST:
                return self._lose(end, "are gone with their topic, which was deleted")
            case ResponseCode.PULL_NOT_FOUND if follows > position:
                return self._lose(min(follows, end), "have expired")
        return self._lose(end, f"are above its last, {found.max_offset}: the log was cut off")

    def _lose(self, end: int, how: str) -> int:
        """Pass over offsets up to `end`, or raise DataLost."""
        if self._fail_on_data_loss:
            broker, topic, queue_id, _ = self._part.queue
            raise DataLost(
                f"offsets {self._position} to {end} of queue {queue_id} of {topic!r} at {broker} "
                f"{how}"
            )
        return end

    def _scan(self, walk: PulledWalk, bodies: list[bytes], begin: int) -> bool:
        """Scan bodies whose offsets begin at `begin`; return whether there is any sound record."""
        queue = self._part.queue
        is_sound = walk.scan(bodies, queue.topic, queue.queue_id, self._position - begin)
        if is_sound:
            self._check_whole(walk, begin)
            return walk.count > 0
        if self._one_by_one and not walk.count:
            self._report(self._position - 1, "its record does not add up")
            self._one_by_one = False
            return False
        # What follows the last sound record is asked for again, one by one.
        self._drop_ahead()
        self._position = begin
        if walk.count:
            self._position = int(walk.numbers[walk.count - 1, QUEUE_OFFSET]) + 1
        self._one_by_one = True
        return walk.count > 0

    def _drop_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None

    def _check_whole(self, walk: PulledWalk, begin: int) -> None:
        """Without a filter each offset has a message: one that has not was removed meanwhile."""
        missing = self._position - begin - walk.count
        if self._expression == "*" and missing and self._fail_on_data_loss:
            broker, topic, queue_id, _ = self._part.queue
            raise DataLost(
                f"{missing} of the messages from offset {begin} to {self._position} of queue "
                f"{queue_id} of {topic!r} at {broker} have expired"
            )
