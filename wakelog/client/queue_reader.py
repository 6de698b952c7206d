"""QueueReader: pulls one queue, as long as there is room for its messages.

A pull waits at the broker until a message comes. After a pull that fails the reader pauses, and
goes on for ever: brokers restart, and queues move.

Source: org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl#pullMessage (4.9.3).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from wakelog.client.broker_calls import Pulled
from wakelog.client.consumer_message import Settler, decode_messages
from wakelog.client.errors import CHECK_LOG, ClientError
from wakelog.client.group_calls import PULL_MESSAGES_MAX, PULL_ROWS_MAX, GroupCalls
from wakelog.client.inbox import Inbox, Queue
from wakelog.client.pulled_rows import PulledRows, scan
from wakelog.network.background import OnFailed, keep
from wakelog.protocol.bodies import SubscriptionData
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.names import RETRY_PREFIX

AGAIN_SECONDS: Final = 1.0
"""After a pull that failed; 4.9.3 waits 3 s, and 50 ms for room."""

logger = logging.getLogger("wakelog.client")


class QueueReader:
    """See the module. One loop, one thread.

    Attributes:
        room: set while messages may be pulled.
    """

    def __init__(
        self,
        queue: Queue,
        subscription: SubscriptionData,
        calls: GroupCalls,
        inbox: Inbox,
        settler: Settler,
        *,
        is_known: bool,
        on_failure: Callable[[ClientError], Awaitable[None]],
        on_success: Callable[[], None],
        on_unexpected: OnFailed,
        now_ms: Callable[[], int],
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        """Pull nothing yet. is_known: the broker has the subscription from heartbeats.

        on_success: called after each pull that did not fail.
        """
        self.queue = queue
        self.room = asyncio.Event()
        self.room.set()
        self._subscription = subscription
        self._tags = frozenset(subscription.tags_set)
        self._calls = calls
        self._inbox = inbox
        self._settler = settler
        self._is_known = is_known
        self._on_failure = on_failure
        self._on_success = on_success
        self._on_unexpected = on_unexpected
        self._now_ms = now_ms
        self._pause = pause
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to pull, or begin again at the queue's next offset."""
        self.stop()
        self._task = keep(self._run, self._on_unexpected)

    def stop(self) -> None:
        """Pull no more. The response to a pull under way is dropped."""
        if self._task is not None:
            self._task.cancel()

    def check_room(self) -> None:
        """Go on if there is room again, and the queue is not paused."""
        if not self.room.is_set() and self._may_pull():
            self.room.set()

    def _may_pull(self) -> bool:
        return not self.queue.full_reason and self.queue.queue not in self._inbox.paused

    async def _run(self) -> None:
        while True:
            if not self._may_pull():
                self.room.clear()
                await self.room.wait()
            try:
                await self._pull()
            except ClientError as error:
                await self._on_failure(error)
                await self._pause(AGAIN_SECONDS)
            except ProtocolError as error:
                at = self.queue.next_offset
                cause = f"what {self.queue.queue} gave from offset {at} on cannot be read: {error}"
                await self._on_failure(ClientError(cause, CHECK_LOG))
                await self._pause(AGAIN_SECONDS)
            else:
                self._on_success()

    async def _pull(self) -> None:
        queue = self.queue
        queue.pulled_ms = self._now_ms()
        pulled = await self._calls.pull(
            queue.queue,
            queue.next_offset,
            self._subscription,
            is_known=self._is_known,
            messages_max=self._messages_max(),
            is_large=self._inbox.has_large_pulls,
        )
        if pulled.code == ResponseCode.TOPIC_NOT_EXIST:
            raise ClientError(f"{queue.queue} is gone: {pulled.remark}", "Create its topic again")
        if pulled.code == ResponseCode.PULL_OFFSET_MOVED:
            self._move(pulled)
            return
        if pulled.body and not self._inbox.is_read.is_set():
            self._on_success()
            await self._inbox.is_read.wait()  # it may become rows or messages
        if pulled.body and (rows := self._rows_of(pulled)) is not None:
            queue.put_rows(rows, pulled.next_offset)
            self._inbox.arrived.set()
            return
        messages = decode_messages(pulled.body, queue.queue, self._settler, self._tags)
        queue.put(messages, pulled.next_offset)
        if messages:
            self._inbox.wake(queue.queue)

    def _messages_max(self) -> int:
        """Return how many messages the next pull may bring: what a queue may have is the same."""
        if not self._inbox.has_large_pulls:
            return PULL_MESSAGES_MAX
        if self._inbox.row_functions is not None:
            return PULL_ROWS_MAX
        return PULL_MESSAGES_MAX + self.queue.messages_room

    def _rows_of(self, pulled: Pulled) -> PulledRows | None:
        """Return what the user gets as rows, None for what becomes messages."""
        functions, queue = self._inbox.row_functions, self.queue.queue
        if functions is None or queue.topic.startswith(RETRY_PREFIX):
            return None
        count = pulled.next_offset - self.queue.next_offset
        return scan(functions, pulled.body, queue, self._tags, count)

    def _move(self, pulled: Pulled) -> None:
        """Go on where the broker says: messages expired, or the queue was made anew."""
        queue = self.queue
        logger.warning(
            "%s has offsets %s to %s, not %s: going on at %s",
            *(queue.queue, pulled.min_offset, pulled.max_offset),
            *(queue.next_offset, pulled.next_offset),
        )
        if pulled.next_offset < queue.last_offset:
            queue.restart(pulled.next_offset)
        else:
            queue.next_offset = pulled.next_offset
