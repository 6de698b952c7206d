"""Send lanes: which messages of a producer go together in one request, and which wait.

A lane has the messages of one topic that may go to any queue, or those of one queue or sharding
key. While enough of its requests are under way, further messages wait. What has waited goes with
the next request, as one batch. So a single message is sent at once, and many at a time are sent in
few requests, without a timer.

Invariants:
    - at most `requests_max` requests of a lane are under way.
    - messages of one lane are taken in the order in which they came.
    - a batch has at most `BATCH_MESSAGES_MAX` messages and `BATCH_BYTES_MAX` bytes; a message
      that brokers refuse in a batch is alone.
"""

from collections import deque
from typing import Final, Generic, NamedTuple, TypeVar

from wakelog.client.messages import EncodedMessage, first_batch

BATCH_BYTES_MAX: Final = 1 << 21
"""Half of 4.9.3's maxMessageSize, which limits a batch as it does a message."""
BATCH_MESSAGES_MAX: Final = 1_000
REQUESTS_MAX: Final = 4
"""Requests of a lane under way: one on its way, one being stored, one answered, one to spare."""
ORDERED_REQUESTS_MAX: Final = 1

Waiter = TypeVar("Waiter")


class Waiting(NamedTuple, Generic[Waiter]):
    """A message that waits, and who waits for its receipt."""

    message: EncodedMessage
    waiter: Waiter


class SendLane(Generic[Waiter]):
    """See the module."""

    def __init__(self, requests_max: int) -> None:
        """Nothing is under way yet."""
        self.requests_max = requests_max
        self.requests_count = 0
        self.waiting: deque[Waiting[Waiter]] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether it can be forgotten."""
        return not self.requests_count and not self.waiting

    def begin(self) -> bool:
        """Return whether a message may be sent at once, without waiting; if so, it is under way."""
        if self.waiting or self.requests_count >= self.requests_max:
            return False
        self.requests_count += 1
        return True

    def end(self) -> None:
        """A request is no longer under way."""
        assert self.requests_count > 0
        self.requests_count -= 1

    def take(self) -> list[Waiting[Waiter]]:
        """Return the messages of the next request, which is then under way; none if none may go."""
        if not self.waiting or self.requests_count >= self.requests_max:
            return []
        self.requests_count += 1
        messages = (each.message for each in self.waiting)
        count = first_batch(messages, bytes_max=BATCH_BYTES_MAX, rows_max=BATCH_MESSAGES_MAX)
        return [self.waiting.popleft() for _ in range(count)]
