"""Inbox: what the queues of a consumer have for its user, one message of each queue in turn.

Invariants:
    - a paused or leaving queue gives nothing, and an ordered queue gives nothing without its lock.
    - a message that was taken and not handed over is given again.
    - a queue that has something to give is awake, or `wake` is called when it will have.

Source: org.apache.rocketmq.client.impl.consumer.{ProcessQueue#isLockExpired, RebalanceImpl} (4.9.3)
for the locks.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Final

from wakelog.client.consumer_message import ConsumerMessage, Settler
from wakelog.client.process_queue import ProcessQueue
from wakelog.client.pulled_rows import PulledRows
from wakelog.compiled.columns import BatchFunctions
from wakelog.protocol.body_codec import MessageQueue

LOCK_MS: Final = 30_000
"""rocketmq.client.rebalance.lockMaxLiveTime: then a lock that was not renewed counts as lost. The
broker gives it to another client after 60 s."""

LARGE_QUEUES_MAX: Final = 16
"""A consumer of more queues has smaller pulls: what waits for it at once may have 64 MiB."""

Queue = ProcessQueue[ConsumerMessage]


class Inbox:
    """See the module. One loop, one thread.

    Attributes:
        queues: the queues that the consumer has.
        paused: those of them that the user has paused.
        leaving: those of them that the consumer is giving up.
        arrived: set when there may be something to take.
        is_read: set by the first `fetch`, which says what is made of pulls. Before, the first pull
            of each queue waits for it.
        row_functions: what reads pulls as rows, for Arrow; None while messages are made of all.
    """

    def __init__(self) -> None:
        """Begin without queues."""
        self.queues: dict[MessageQueue, Queue] = {}
        self.paused: set[MessageQueue] = set()
        self.leaving: set[MessageQueue] = set()
        self.arrived = asyncio.Event()
        self.is_read = asyncio.Event()
        self.row_functions: BatchFunctions | None = None
        self._locked_until_ms: dict[MessageQueue, int] = {}
        self._awake: dict[MessageQueue, None] = {}
        self._direct: list[ConsumerMessage] = []

    @property
    def is_full(self) -> bool:
        """Whether a queue is pulled no further before something is acknowledged."""
        return any(queue.full_reason for queue in self.queues.values())

    @property
    def has_large_pulls(self) -> bool:
        """Whether a pull may bring a MiB."""
        return len(self.queues) <= LARGE_QUEUES_MAX

    def add(self, process_queue: Queue) -> None:
        """Have one more queue."""
        self.queues[process_queue.queue] = process_queue

    def remove(self, queue: MessageQueue) -> Queue | None:
        """Have a queue no longer; what is in hand of it cannot be acknowledged any more."""
        self._awake.pop(queue, None)
        self._locked_until_ms.pop(queue, None)
        self.paused.discard(queue)
        self.leaving.discard(queue)
        return self.queues.pop(queue, None)

    def locked(self, queue: MessageQueue, now_ms: int) -> None:
        """Note that the broker has locked an ordered queue for this client."""
        self._locked_until_ms[queue] = now_ms + LOCK_MS
        self.wake(queue)

    def is_locked(self, queue: MessageQueue, now_ms: int) -> bool:
        """Return whether this client has the lock of an ordered queue."""
        return now_ms < self._locked_until_ms.get(queue, 0)

    def wake(self, queue: MessageQueue) -> None:
        """Look at a queue at the next `take`: it may have something to give."""
        self._awake[queue] = None
        self.arrived.set()

    def take(self, now_ms: int, messages_max: int) -> list[ConsumerMessage]:
        """Return the next messages, and have them in hand."""
        taken, self._direct = self._direct[:messages_max], self._direct[messages_max:]
        while (left := messages_max - len(taken)) > 0:
            givers = self._givers(now_ms, left)
            if not givers:
                break
            turns = min(*givers.values(), left // len(givers))
            runs = [self.queues[queue].take(now_ms, turns) for queue in givers]
            taken += chain.from_iterable(zip(*runs, strict=True)) if len(runs) > 1 else runs[0]
            for queue in givers:
                del self._awake[queue]
                self._awake[queue] = None  # behind the others
        if not self._awake and not self._direct:
            self.arrived.clear()
        return taken

    def _givers(self, now_ms: int, queues_max: int) -> dict[MessageQueue, int]:
        """Return the next queues that have something to give, at most so many, and how much.

        What is found to have nothing is awake no longer.
        """
        givers: dict[MessageQueue, int] = {}
        for queue in list(self._awake):
            if len(givers) == queues_max:
                break
            if count := self._ready_count(queue, now_ms):
                givers[queue] = count
            else:
                del self._awake[queue]
        return givers

    def _ready_count(self, queue: MessageQueue, now_ms: int) -> int:
        """Return how many messages of a queue may be given now."""
        process_queue = self.queues.get(queue)
        if process_queue is None or self._gives_nothing(queue):
            return 0
        if process_queue.is_ordered and not self.is_locked(queue, now_ms):
            return 0
        return process_queue.ready_count(now_ms)

    def take_rows(self, now_ms: int, rows_max: int) -> list[PulledRows]:
        """Return the next rows, at most so many, and have them in hand."""
        taken: list[PulledRows] = []
        for queue in self._rows_in:
            if not self._gives_nothing(queue):
                found = self.queues[queue].take_rows(now_ms, rows_max)
                rows_max -= sum(map(len, found))
                taken += found
        return taken

    @property
    def _rows_in(self) -> list[MessageQueue]:
        return [queue for queue, found in self.queues.items() if found.rows.count]

    def untake_rows(self, taken: Sequence[PulledRows]) -> None:
        """Give rows again, in their order, that the user never got."""
        for rows in reversed(taken):
            if (holder := self.holder_of_rows(rows)) is not None:
                holder.untake_rows(rows)

    def holder_of_rows(self, rows: PulledRows) -> Queue | None:
        """Return the queue that has these rows in hand, None if they have gone elsewhere."""
        process_queue = self.queues.get(rows.queue)
        if process_queue is not None and process_queue.rows.holds(rows):
            return process_queue
        return None

    def take_messages(self, settler: Settler) -> None:
        """Make messages of the rows that nobody has taken, and of what is pulled from now on."""
        self.is_read.set()
        if self.row_functions is None:
            return
        self.row_functions = None
        for queue in self._rows_in:
            process_queue = self.queues[queue]
            for rows in process_queue.rows.take_ready():
                process_queue.adopt(rows.messages(settler), None)
            self.wake(queue)

    def untake(self, messages: Sequence[ConsumerMessage]) -> None:
        """Give messages again, in their order, that the user never got; not those given back."""
        for message in reversed(messages):
            if (holder := self.holder(message)) is not None:
                holder.untake(message)
                self.wake(message.queue)

    @contextmanager
    def handing_over(self, messages: Sequence[ConsumerMessage]) -> Iterator[None]:
        """Give messages again after an exception, or the end of the caller, in this block."""
        try:
            yield
        except BaseException:
            self.untake(messages)
            raise

    def put_directly(self, message: ConsumerMessage) -> None:
        """Give a message of no queue before all others."""
        self._direct.append(message)
        self.arrived.set()

    def withdraw(self, message: ConsumerMessage) -> None:
        """Give it no longer, if that has not happened."""
        if message in self._direct:
            self._direct.remove(message)

    def may_give(self, message: ConsumerMessage) -> bool:
        """Return whether a message that was taken may still go to the user."""
        return not self._gives_nothing(message.queue) and self.holder(message) is not None

    def _gives_nothing(self, queue: MessageQueue) -> bool:
        """Return whether the user has paused a queue, or the consumer is giving it up."""
        return queue in self.paused or queue in self.leaving

    def holder(self, message: ConsumerMessage) -> Queue | None:
        """Return the queue that has this message in hand, None if it has gone elsewhere."""
        process_queue = self.queues.get(message.queue)
        if process_queue is not None and process_queue.holds(message):
            return process_queue
        return None
