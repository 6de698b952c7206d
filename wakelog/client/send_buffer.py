"""The send buffer of a producer: what is under way, what waits, and what each sender gets back.

Invariants:
    - at most `messages_max` messages and `bytes_max` bytes are in it. Further senders wait, in
      order, for `room_seconds_max` at most. One message may be larger than all the room.
    - each sender gets a receipt or an error. A batch that a broker finds illegal is sent again
      message by message, so that only those at fault fail.

Source: none upstream.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from wakelog.client.errors import (
    ClientError,
    NotAcknowledged,
    closed_meanwhile,
    log_unexpected,
)
from wakelog.client.lanes import ORDERED_REQUESTS_MAX, SendLane, Waiting
from wakelog.client.messages import EncodedMessage, LaneName, SendRequest
from wakelog.client.receipts import Receipt, receipt_of, receipts_of
from wakelog.client.send_command import Stored
from wakelog.client.sender import Sender
from wakelog.network.background import run_once
from wakelog.protocol.codes import ResponseCode

MESSAGES_MAX: Final = 10_000
BYTES_MAX: Final = 64 << 20
CLOSE_SECONDS_MAX: Final = 10.0
"""How long `close` waits for messages under way."""


class SendBuffer:
    """See the module. One loop, one thread."""

    def __init__(
        self,
        sender: Sender,
        *,
        messages_max: int,
        bytes_max: int,
        requests_max: int,
        room_seconds_max: float,
    ) -> None:
        """requests_max: of one lane that keeps no order."""
        self._sender = sender
        self._messages_max, self._bytes_max = messages_max, bytes_max
        self._requests_max = requests_max
        self._room_seconds_max = room_seconds_max
        self.messages_count = 0
        self.bytes_count = 0
        self._for_room: deque[tuple[int, int, asyncio.Future[None]]] = deque()
        self._lanes: dict[LaneName, SendLane[asyncio.Future[Receipt]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._emptied: asyncio.Future[None] | None = None  # what `close` waits for

    async def send(self, message: EncodedMessage) -> Receipt:
        """Send one message, with others that wait if there are any. Raises: NotAcknowledged."""
        size_bytes = len(message.body)
        if not self._take_room(1, size_bytes):
            await self._wait_for_room(1, size_bytes)
        try:
            name = message.lane
            lane = self._lane(name, message)
            if not lane.begin():
                waiter: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
                lane.waiting.append(Waiting(message, waiter))
                return await waiter
            try:
                stored = await self._sender.send(SendRequest((message,)))
            finally:
                self._end_request(lane, name)
            return receipt_of(message.unique_key, stored)
        finally:
            self._give_room(1, size_bytes)

    async def send_request(self, request: SendRequest) -> Stored:
        """Send one request as it is. Raises: NotAcknowledged."""
        # An encoded batch counts as a whole: its messages would have to be made for their bodies.
        size_bytes = len(request.batch_body) or sum(len(each.body) for each in request.messages)
        size = len(request.messages), size_bytes
        if not self._take_room(*size):
            await self._wait_for_room(*size)
        try:
            return await self._sender.send(request)
        finally:
            self._give_room(*size)

    async def close(self) -> None:
        """Wait for what is under way, for `CLOSE_SECONDS_MAX` at most."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                while self.messages_count:
                    self._emptied = asyncio.get_running_loop().create_future()
                    await self._emptied
        except TimeoutError:
            for task in self._tasks:
                task.cancel()

    # Room

    def _has_room(self, messages: int, size_bytes: int) -> bool:
        return not self.messages_count or (
            self.messages_count + messages <= self._messages_max
            and self.bytes_count + size_bytes <= self._bytes_max
        )

    def _take_room(self, messages: int, size_bytes: int) -> bool:
        """Take room for these, and return True; False if they have to wait for it."""
        if self._for_room or not self._has_room(messages, size_bytes):
            return False
        self.messages_count += messages
        self.bytes_count += size_bytes
        return True

    async def _wait_for_room(self, messages: int, size_bytes: int) -> None:
        """Have room for these in turn. Raises: NotAcknowledged."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._for_room.append((messages, size_bytes, turn))
        try:
            async with asyncio.timeout(self._room_seconds_max):
                await turn
        except TimeoutError:
            if not turn.cancelled():  # the room came with the end of the time
                return
            self._wake()
            raise NotAcknowledged(
                f"{self.messages_count} messages with {self.bytes_count} bytes are under way, and "
                f"none was answered within {self._room_seconds_max} s",
                "Nothing was sent: send more slowly, or raise messages_max, bytes_max or timeout",
            ) from None
        except asyncio.CancelledError:
            if turn.cancelled():
                self._wake()
            else:
                self._give_room(messages, size_bytes)
            raise

    def _give_room(self, messages: int, size_bytes: int) -> None:
        self.messages_count -= messages
        self.bytes_count -= size_bytes
        if self._for_room:
            self._wake()
        if not self.messages_count and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _wake(self) -> None:
        """Give room to those that wait, in order, as far as there is some.

        They have it from now on: whatever runs before they do sees it taken.
        """
        while self._for_room:
            messages, size_bytes, turn = self._for_room[0]
            if not turn.done():
                if not self._has_room(messages, size_bytes):
                    return
                self.messages_count += messages
                self.bytes_count += size_bytes
                turn.set_result(None)
            self._for_room.popleft()

    # Lanes

    def _lane(self, name: LaneName, message: EncodedMessage) -> SendLane[asyncio.Future[Receipt]]:
        lane = self._lanes.get(name)
        if lane is None:
            lane = SendLane(ORDERED_REQUESTS_MAX if message.is_ordered else self._requests_max)
            self._lanes[name] = lane
        return lane

    def _end_request(self, lane: SendLane[asyncio.Future[Receipt]], name: LaneName) -> None:
        lane.end()
        while lane.waiting and (taken := lane.take()):
            task = run_once(self._send_taken(lane, name, taken), log_unexpected("a batch"))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        # Those of topics stay: there are few, and to make one anew for each message takes longer.
        if lane.requests_max == ORDERED_REQUESTS_MAX and lane.is_idle:
            self._lanes.pop(name, None)

    async def _send_taken(
        self,
        lane: SendLane[asyncio.Future[Receipt]],
        name: LaneName,
        taken: Sequence[Waiting[asyncio.Future[Receipt]]],
    ) -> None:
        try:
            left = [each for each in taken if not each.waiter.done()]
            if left:
                await self._send_batch(left)
        except Exception as error:
            _fail(taken, error)
        except asyncio.CancelledError:  # `close` waits no longer
            _fail(taken, closed_meanwhile())
            raise
        finally:
            for each in taken:
                each.waiter.cancel()  # without effect on those that are done
            self._end_request(lane, name)

    async def _send_batch(self, batch: Sequence[Waiting[asyncio.Future[Receipt]]]) -> None:
        messages = tuple(each.message for each in batch)
        try:
            stored = await self._sender.send(SendRequest(messages))
        except ClientError as error:
            if error.code == ResponseCode.MESSAGE_ILLEGAL and len(batch) > 1:
                for each in batch:
                    await self._send_batch([each])
                return
            _fail(batch, error)
            return
        receipts = receipts_of([message.unique_key for message in messages], stored)
        for each, receipt in zip(batch, receipts, strict=True):
            if not each.waiter.done():
                each.waiter.set_result(receipt)


def _fail(batch: Sequence[Waiting[asyncio.Future[Receipt]]], error: Exception) -> None:
    """Give those who still wait an error."""
    for each in batch:
        if not each.waiter.done():
            each.waiter.set_exception(error)
