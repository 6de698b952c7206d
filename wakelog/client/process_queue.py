"""ProcessQueue: the messages of one queue between their pull and their acknowledgement.

    put        pulled messages -> ready
    take       ready -> in hand; of an ordered queue one at a time
    ack        in hand -> gone, in any order
    put_back   in hand -> ready again at a later time
    restart    everything is forgotten: the queue goes on at another offset

For Arrow there are rows beside the messages, in `rows`; `adopt` makes messages of rows in hand.

Invariants:
    - every message below `committable` was acknowledged or filtered out. So a group that goes on
      there loses nothing, and may see again what was acknowledged above it.
    - an ordered queue gives no message before the one in front of it was acknowledged.
    - nothing is pulled for a queue with a `full_reason`. One pull may exceed its limits.

Source: org.apache.rocketmq.client.impl.consumer.ProcessQueue, DefaultMQPushConsumerImpl#pullMessage
(4.9.3).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, Final, Generic, Protocol, TypeVar

from wakelog.client.pulled_rows import PulledRows, RowQueue
from wakelog.protocol.body_codec import MessageQueue

MESSAGES_MAX: Final = 1_000
"""pullThresholdForQueue: messages of one queue that were pulled and not acknowledged."""
BYTES_MAX: Final = 100 << 20
"""pullThresholdSizeForQueue."""
SPAN_MAX: Final = 2_000
"""consumeConcurrentlyMaxSpan: from the first offset that was not acknowledged to the last one."""


class Queued(Protocol):
    """What a process queue needs of a message."""

    @property
    def queue_offset(self) -> int:
        """Its place in the queue."""
        ...

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        ...


Item = TypeVar("Item", bound=Queued)


class ProcessQueue(Generic[Item]):
    """See the module. One thread, but for `holds`.

    Attributes:
        rows: pulled records of which no messages were made.
        next_offset: where the next pull begins.
        taken_count, acked_count, returned_count: what happened to messages since the start.
        pulled_ms, taken_ms: when the last pull and the last `take` were, 0 before the first.
    """

    def __init__(self, queue: MessageQueue, begin_offset: int, *, is_ordered: bool = False) -> None:
        """Begin at an offset."""
        self.queue = queue
        self.next_offset = begin_offset
        self.is_ordered = is_ordered
        self.taken_count = self.acked_count = self.returned_count = 0
        self.pulled_ms = self.taken_ms = 0
        self.size_bytes = 0
        self.rows = RowQueue()
        self._messages: dict[int, Item] = {}  # by offset, which only grows
        self._ready: deque[int] = deque()
        self._in_hand: dict[int, int] = {}  # offset to the time of its take
        self._later: list[tuple[int, int]] = []  # a heap of due time and offset
        self._last_offset = begin_offset

    @property
    def committable(self) -> int:
        """The offset at which the group may go on."""
        first, first_row = next(iter(self._messages), self.next_offset), self.rows.first_open
        return first if first_row is None else min(first, first_row)

    @property
    def messages_count(self) -> int:
        """How many messages were pulled and not acknowledged, as objects or rows."""
        return len(self._messages) + self.rows.count

    @property
    def in_hand_count(self) -> int:
        """How many messages the user has, as objects or rows."""
        return len(self._in_hand) + self.rows.in_hand_count

    @property
    def messages_room(self) -> int:
        """How many messages may come before there are `MESSAGES_MAX`."""
        return max(MESSAGES_MAX - len(self._messages), 0)

    @property
    def last_offset(self) -> int:
        """The offset of the last message that was put."""
        return self._last_offset

    @property
    def full_reason(self) -> str:
        """The limit that is reached, "" for none."""
        if len(self._messages) > MESSAGES_MAX:
            return f"over {MESSAGES_MAX} messages wait for ack()"
        if self.size_bytes > BYTES_MAX:
            return f"over {BYTES_MAX} bytes wait for ack()"
        if not self.is_ordered and self._messages:
            span = self._last_offset - self.committable
            if span > SPAN_MAX:
                return f"offset {self.committable} was not acknowledged, {span} offsets ago"
        return self.rows.full_reason

    @property
    def due_ms(self) -> int | None:
        """When the next message that was put back is due, None without one."""
        return self._later[0][0] if self._later else None

    def restart(self, offset: int) -> None:
        """Forget all messages, those in hand too, and go on at another offset."""
        for held in (self._messages, self._ready, self._in_hand, self._later):
            held.clear()
        self.rows.clear()
        self.size_bytes = 0
        self.next_offset = self._last_offset = offset

    def put(self, messages: Sequence[Item], next_offset: int) -> None:
        """Add what a pull returned, in the order of the queue."""
        fresh = {message.queue_offset: message for message in messages}
        if len(fresh) < len(messages) or not fresh.keys().isdisjoint(self._messages.keys()):
            fresh = {}
            for message in messages:
                if message.queue_offset not in self._messages:
                    fresh.setdefault(message.queue_offset, message)
        if fresh:
            self._messages.update(fresh)
            self._ready.extend(fresh)
            self._last_offset = next(reversed(fresh))
            self.size_bytes += sum([message.size_bytes for message in fresh.values()])
        self.next_offset = next_offset

    def put_rows(self, rows: PulledRows, next_offset: int) -> None:
        """Add what a pull returned, as rows."""
        self.rows.put(rows)
        self._last_offset = rows.last_offset
        self.next_offset = next_offset

    def take_rows(self, now_ms: int, rows_max: int) -> list[PulledRows]:
        """Return the next rows, at most so many, and have them in hand."""
        found = self.rows.take(now_ms, rows_max)
        if found:
            self.taken_ms = now_ms
            self.taken_count += sum(map(len, found))
        return found

    def untake_rows(self, rows: PulledRows) -> None:
        """Give rows in hand again at once, as if they had not been taken."""
        self.rows.untake(rows)
        self.taken_count -= len(rows)

    def ack_rows(self, rows: PulledRows, where: Any) -> None:
        """Forget some of rows in hand, which an index of NumPy chooses."""
        self.acked_count += self.rows.close(rows, where)

    def adopt(self, messages: Iterable[Item], taken_ms: int | None) -> None:
        """Have messages in the place of rows that were forgotten.

        taken_ms: since when they are in hand; None if they are ready.
        """
        for message in messages:
            self._messages[message.queue_offset] = message
            self.size_bytes += message.size_bytes
            if taken_ms is None:
                self._ready.append(message.queue_offset)
            else:
                self._in_hand[message.queue_offset] = taken_ms
        self._messages = dict(sorted(self._messages.items()))

    def ready_count(self, now_ms: int) -> int:
        """Return how many messages may be taken now; of an ordered queue one at most."""
        if self.is_ordered and self._in_hand:
            return 0
        while self._later and self._later[0][0] <= now_ms:
            self._ready.appendleft(heappop(self._later)[1])
        if not self.is_ordered:
            return len(self._ready)
        return 1 if self._ready and not self._later else 0

    def take(self, now_ms: int, count: int) -> list[Item]:
        """Return the next messages, and have them in hand; `ready_count` has so many at least."""
        offsets = [self._ready.popleft() for _ in range(count)]
        self._in_hand.update(dict.fromkeys(offsets, now_ms))
        self.taken_ms = now_ms
        self.taken_count += count
        return [self._messages[offset] for offset in offsets]

    def holds(self, message: Item) -> bool:
        """Return whether this very message is in hand. Any thread."""
        offset = message.queue_offset
        return offset in self._in_hand and self._messages.get(offset) is message

    def ack(self, messages: Iterable[Item]) -> list[Item]:
        """Forget those of these messages that are in hand, and return them."""
        acked, size_bytes = [], 0
        in_hand, there = self._in_hand, self._messages
        for message in messages:
            offset = message.queue_offset
            if offset in in_hand and there[offset] is message:
                del in_hand[offset], there[offset]
                size_bytes += message.size_bytes
                acked.append(message)
        self.size_bytes -= size_bytes
        self.acked_count += len(acked)
        return acked

    def untake(self, message: Item) -> None:
        """Give a message in hand again at once, as if it had not been taken."""
        del self._in_hand[message.queue_offset]
        self._ready.appendleft(message.queue_offset)
        self.taken_count -= 1

    def put_back(self, message: Item, due_ms: int) -> None:
        """Give a message in hand again at `due_ms`."""
        del self._in_hand[message.queue_offset]
        heappush(self._later, (due_ms, message.queue_offset))
        self.returned_count += 1

    def in_hand(self) -> list[Item]:
        """Return the messages in hand."""
        return [self._messages[offset] for offset in self._in_hand]

    def overdue(self, taken_before_ms: int) -> list[Item]:
        """Return the messages in hand that were taken before this time."""
        return [
            self._messages[offset]
            for offset, taken_ms in self._in_hand.items()
            if taken_ms < taken_before_ms
        ]
