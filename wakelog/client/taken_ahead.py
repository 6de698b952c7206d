"""TakenAhead: messages that an iteration has taken at once, and yields one after the other.

To take 32 messages costs little more than to take one. But the time that a message may be in hand
(`consume_timeout`) begins when it is taken. So what waits for a slow user is given back soon.

Invariants:
    - what is not asked for within `AHEAD_SECONDS`, or before the iteration ends, is given again.
    - nothing comes of a queue that was paused meanwhile, or has gone to another member.

Source: none upstream.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Self

from wakelog.client.consumer_message import ConsumerMessage, Settler
from wakelog.client.inbox import Inbox

AHEAD_MAX: Final = 32
AHEAD_SECONDS: Final = 0.05
ITERATION_SECONDS: Final = 3600.0
"""How long one step of an iteration waits before the next one."""


class TakenAhead:
    """See the module. One thread iterates; `give_back` is for the loop's."""

    def __init__(self, inbox: Inbox, consumer: Settler, taken: Sequence[ConsumerMessage]) -> None:
        """Have messages that were taken from the inbox of a consumer."""
        self._inbox = inbox
        self._consumer = consumer
        self._left = deque(taken)

    def __len__(self) -> int:
        """Count those that were neither yielded nor given back."""
        return len(self._left)

    def next(self) -> ConsumerMessage | None:
        """Return the next message; None if there is none, or if it is given back."""
        try:
            message = self._left.popleft()
        except IndexError:  # the loop's thread may just have given them back
            return None
        if self._is_direct(message) or self._inbox.may_give(message):
            return message
        self._left.appendleft(message)
        return None

    def give_back(self) -> None:
        """Have the inbox give again what is left, in its order."""
        messages: list[ConsumerMessage] = []
        with suppress(IndexError):
            while True:
                messages.append(self._left.popleft())
        for message in filter(self._is_direct, messages):
            self._inbox.put_directly(message)
        self._inbox.untake(messages)

    @contextmanager
    def given_back_soon(self) -> Iterator[Self]:
        """Have the running loop give back what is left in time, and at the end of the block."""
        timer = asyncio.get_running_loop().call_later(AHEAD_SECONDS, self.give_back)
        try:
            yield self
        finally:
            timer.cancel()
            self.give_back()

    def _is_direct(self, message: ConsumerMessage) -> bool:
        """Return whether an operator sent a message to this consumer: it is of no queue."""
        return message.settler is not self._consumer
