"""Pulls one range of a queue, and decides by each response what to pull next.

    SUCCESS                  messages, and the next offset
    PULL_RETRY_IMMEDIATELY   no message with a wanted tag up to the next offset; or, by its remark,
                             messages that are being removed
    PULL_OFFSET_MOVED        the offset has expired, or is above the queue's end
    PULL_NOT_FOUND           the queue ends here, before the range does
    TOPIC_NOT_EXIST          the topic was deleted

The next pull is under way while the rows of the last one are made.

After a damaged record, messages are pulled one by one from the last sound one on. When the damaged
record comes alone, it is skipped.

Invariants: every offset of the range is pulled; a missing one is `DataLost`, or skipped if
`fail_on_data_loss` is false.

Source: org.apache.rocketmq.broker.processor.PullMessageProcessor#processRequest,
org.apache.rocketmq.store.DefaultMessageStore#getMessage (4.9.3).
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from wakelog.client.broker_calls import BrokerCalls, Pulled
from wakelog.compiled.layout import QUEUE_OFFSET
from wakelog.protocol.codes import ResponseCode
from wakelog.spark.errors import DataLost
from wakelog.spark.options import ReadOptions
from wakelog.spark.remote.pulled_walk import PulledWalk
from wakelog.spark.remote.query import PulledRange

REMOVING: Final = "MESSAGE_WAS_REMOVING"


class Puller:
    """See the module. One loop, one thread; `close` ends it."""

    def __init__(
        self,
        calls: BrokerCalls,
        part: PulledRange,
        options: ReadOptions,
        *,
        report: Callable[[int, str], None],
    ) -> None:
        """Pull nothing yet. report: called with the offset of each damaged record."""
        self._calls = calls
        self._part = part
        self._options = options
        self._expression = " || ".join(options.tags) or "*"
        self._report = report
        self._position = part.begin
        self._one_by_one = False
        self._ahead: asyncio.Task[Pulled] | None = None

    async def fill(self, walk: PulledWalk) -> bool:
        """Scan the messages of the next batch; return False at the end of the range.

        Raises: DataLost, ClientError.
        """
        while self._position < self._part.end:
            begin = self._position
            bodies = await self._gather()
            if bodies and self._scan(walk, bodies, begin):
                return True
        return False

    async def close(self) -> None:
        """Cancel the pull that is under way."""
        if self._ahead is not None:
            self._ahead.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._ahead

    async def _gather(self) -> list[bytes]:
        """Pull the bodies of a batch; offsets without a body may be skipped."""
        rows, begin = self._options.rows, self._position
        bodies: list[bytes] = []
        size_bytes = 0
        while self._position < self._part.end:
            found = await self._pull()
            next_offset = self._next_offset(found)
            if found.body:
                bodies.append(bytes(found.body))
                size_bytes += len(found.body)
            self._position = next_offset
            if self._position - begin >= rows.batch_rows or size_bytes >= rows.batch_bytes:
                break
            if self._one_by_one and bodies:
                break
        return bodies

    async def _pull(self) -> Pulled:
        """Return the response for the position, and start the next pull."""
        found = await (self._ahead or self._start_pull(self._position))
        self._ahead = None
        follows = found.next_offset
        goes_on = found.code == ResponseCode.SUCCESS and not self._one_by_one
        if goes_on and self._position < follows < self._part.end:
            self._ahead = self._start_pull(follows)
            await asyncio.sleep(0)  # this sends it
        return found

    def _start_pull(self, queue_offset: int) -> asyncio.Task[Pulled]:
        count = self._options.pull_count
        if self._expression == "*":
            count = min(count, self._part.end - queue_offset)
        if self._one_by_one:
            count = 1
        asked = self._calls.pull(self._part.queue, queue_offset, count, self._expression)
        return asyncio.get_running_loop().create_task(asked)

    def _next_offset(self, found: Pulled) -> int:
        """Return the offset of the next pull. Raises: DataLost."""
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
        """Skip the offsets up to `end`, or raise DataLost."""
        if self._options.fail_on_data_loss:
            broker, topic, queue_id, _ = self._part.queue
            raise DataLost(
                f"offsets {self._position} to {end} of queue {queue_id} of {topic!r} at {broker} "
                f"{how}"
            )
        return end

    def _scan(self, walk: PulledWalk, bodies: list[bytes], begin: int) -> bool:
        """Scan bodies whose offsets begin at `begin`; return whether any record is sound."""
        queue = self._part.queue
        is_sound = walk.scan(bodies, queue.topic, queue.queue_id, self._position - begin)
        if is_sound:
            self._check_whole(walk, begin)
            return walk.count > 0
        if self._one_by_one and not walk.count:
            self._report(self._position - 1, "its record is damaged")
            self._one_by_one = False
            return False
        # Pull the messages after the last sound record again, one by one.
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
        """Raise DataLost for missing messages: without a filter each offset has one."""
        missing = self._position - begin - walk.count
        if self._expression == "*" and missing and self._options.fail_on_data_loss:
            broker, topic, queue_id, _ = self._part.queue
            raise DataLost(
                f"{missing} of the messages from offset {begin} to {self._position} of queue "
                f"{queue_id} of {topic!r} at {broker} have expired"
            )
