"""TaskReader: the tasks of one queue, one by one, each when it is due.

    pump      consumer -> ready; a task that is early takes its next hop, or waits here
    take      ready -> in hand
    ack       done
    requeue   it is put into its queue again, then acknowledged
    refuse    a dead letter of the group, in `%DLQ%` and the group's name

A task in hand that is not settled within the visibility timeout is put into its queue again. What
a worker held that died is given to the others of its group as soon as the broker misses it.

Invariants:
    - a task is acknowledged only after it was settled, or stored again.
    - at most `READY_MAX` tasks are ready, and the consumer's own limits hold for the rest.
    - a message that `accepts` refuses is never ready, and is named in the log with its place.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from heapq import heappop, heappush
from typing import Final

from wakelog.client import ClientError, Consumer, ConsumerMessage
from wakelog.client.clocks import steady_ms, wall_ms
from wakelog.client.errors import log_unexpected
from wakelog.client.instance import Opened
from wakelog.network.background import keep, run_once
from wakelog.tasks.due import due_of
from wakelog.tasks.sender import TaskSender

READY_MAX: Final = 32
VISIBILITY_TIMEOUT: Final = timedelta(hours=1)
"""By default, as of kombu's transport for Redis."""
NO_TIMEOUT: Final = timedelta(days=3650)
"""Of the client: it would send a task to the topic of retries. The reader has a timeout itself."""
FETCH_SECONDS: Final = 3600.0
COMMIT_SECONDS: Final = 1.0
"""So much work at most is done again after a worker was killed, and what it had in hand."""
AGAIN_SECONDS: Final = 1.0
"""After a failure of the broker."""
REASON_MAX: Final = 300
"""Characters of what a line of the log says of a dead letter."""
SWEEPS_PER_TIMEOUT: Final = 4
SWEEP_SECONDS_MAX: Final = 30.0

logger = logging.getLogger("wakelog.tasks")


class NoTask(Exception):
    """A message is no task of this framework; the text says why."""


class TaskReader(Opened):
    """See the module. One loop, one thread.

    Attributes:
        in_hand: when each message was taken, by the steady clock.
        failure: what the user has to know, until it was raised.
    """

    def __init__(
        self,
        consumer: Consumer,
        sender: TaskSender,
        home: str,
        *,
        accepts: Callable[[ConsumerMessage], bool],
        on_ready: Callable[[], None] = lambda: None,
        visibility_ms: int,
        is_shared: bool = True,
    ) -> None:
        """Read nothing yet.

        home: the topic to which a task goes back. is_shared: False for a broadcast.
        accepts: whether a message is for this queue. It raises NoTask for one that is no task.
        """
        self.in_hand: dict[ConsumerMessage, int] = {}
        self.failure: ClientError | None = None
        self._consumer = consumer
        self._sender = sender
        self._home = home
        self._accepts = accepts
        self._notify = on_ready
        self._arrived = asyncio.Event()
        self._visibility_ms = visibility_ms
        self._is_shared = is_shared
        self._ready: deque[ConsumerMessage] = deque()
        self._waiting: list[tuple[int, int, ConsumerMessage]] = []  # due time, number, message
        self._number = 0
        self._room = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._hops: set[asyncio.Task[None]] = set()
        self.is_retired = False

    async def start(self) -> None:
        """Join the group, and begin to read. Raises: ClientError."""
        await self._consumer.start()
        self._loops = [keep(self._pump, log_unexpected("reading tasks"))]
        if self._is_shared:
            self._loops.append(keep(self._commit_often, log_unexpected("committing tasks")))
            self._loops.append(keep(self._sweep_often, log_unexpected("looking for old tasks")))

    async def close(self) -> None:
        """Commit what is done, and leave the group: it gets the rest."""
        tasks = [*self._loops, *self._hops]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loops.clear()
        await self._consumer.close()

    async def retire(self) -> None:
        """Give no more tasks, and leave the group when none is in hand."""
        self.is_retired = True
        for pump in self._loops[:1]:  # none once it was closed
            pump.cancel()
        self._ready.clear()
        await self._leave_when_done()

    async def _leave_when_done(self) -> None:
        if self.is_retired and not self.in_hand and self._consumer.is_open:
            await self.close()

    @property
    def is_open(self) -> bool:
        """Whether it may still settle tasks."""
        return self._consumer.is_open

    # Tasks

    def take(self) -> ConsumerMessage | None:
        """Return the next task and have it in hand; None without one. Raises: ClientError."""
        if self._ready:
            message = self._ready.popleft()
            self._release()
            self._room.set()
            self.in_hand[message] = steady_ms()
            return message
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return None

    async def wait_next(self, wait_seconds: float) -> ConsumerMessage | None:
        """Return the next task, and have it in hand; None without one in time.

        Raises: ClientError.
        """
        deadline = asyncio.get_running_loop().time() + wait_seconds
        while True:
            self._arrived.clear()
            if (message := self.take()) is not None:
                return message
            try:
                async with asyncio.timeout_at(deadline):
                    await self._arrived.wait()
            except TimeoutError:
                return None

    async def ack(self, message: ConsumerMessage) -> None:
        """Consider a task done; one that is not in hand any more stays as it is."""
        if self.in_hand.pop(message, None) is not None and self._consumer.is_open:
            await self._consumer.ack(message)
            await self._leave_when_done()

    async def requeue(self, message: ConsumerMessage, body: bytes, *, due_ms: int = 0) -> None:
        """Put a task into its queue again, with this body. Raises: ClientError."""
        if message not in self.in_hand:
            return
        if self._is_shared:
            await self._put_again(message, body, due_ms)
            await self.ack(message)
        else:
            del self.in_hand[message]
            self._wait_for(message, 0)

    async def _put_again(self, message: ConsumerMessage, body: bytes, due_ms: int) -> None:
        key, tags = " ".join(message.keys), message.tags
        await self._sender.put(self._home, body, due_ms=due_ms, key=key, tags=tags)

    async def refuse(self, message: ConsumerMessage, reason: str) -> None:
        """Make a message a dead letter of the group; what is broadcast has none and is dropped."""
        self.in_hand.pop(message, None)
        became = "a dead letter" if self._is_shared else "dropped"
        logger.error("%s: %s: %s", became, _in_a_line(reason), _name(message))
        if self._consumer.is_open:
            await self._consumer.reject(message)
            await self._leave_when_done()

    def _on_ready(self) -> None:
        self._arrived.set()
        self._notify()

    # Loops

    async def _pump(self) -> None:
        while True:
            while len(self._ready) >= READY_MAX:
                self._room.clear()
                await self._room.wait()
            try:
                found = await self._consumer.fetch(READY_MAX - len(self._ready), FETCH_SECONDS)
                await asyncio.gather(*map(self._admit, found))
            except ClientError as error:
                self.failure = error
                self._on_ready()
                await asyncio.sleep(AGAIN_SECONDS)

    async def _admit(self, message: ConsumerMessage) -> None:
        """Have a message ready, or do with it what else is to be done."""
        try:
            if not self._accepts(message):
                await self._consumer.ack(message)
                return
        except (NoTask, ClientError) as reason:  # the second: a body that cannot be inflated
            await self.refuse(message, str(reason))
            return
        due_ms = due_of(message.properties)
        remaining_ms = due_ms - wall_ms()
        if remaining_ms < min(self._sender.delays_ms):
            self._wait_for(message, max(remaining_ms, 0))
        else:
            await self._hop(message, due_ms)

    async def _hop(self, message: ConsumerMessage, due_ms: int) -> None:
        try:
            await self._put_again(message, message.body, due_ms)
        except ClientError as error:
            logger.warning("not delayed further yet: %s: %s", error, _name(message))
            self._wait_for(message, round(AGAIN_SECONDS * 1000))
        else:
            await self._consumer.ack(message)

    def _wait_for(self, message: ConsumerMessage, delay_ms: int) -> None:
        """Have a message ready after some time, once there is room."""
        self._number += 1
        heappush(self._waiting, (steady_ms() + delay_ms, self._number, message))
        if delay_ms:
            asyncio.get_running_loop().call_later(delay_ms / 1000 + 0.001, self._release)
        else:
            self._release()

    def _release(self) -> None:
        while self._waiting and self._waiting[0][0] <= steady_ms() and not self.is_retired:
            if len(self._ready) >= READY_MAX:
                return  # `take` makes room
            _, _, message = heappop(self._waiting)
            if due_of(message.properties) > wall_ms() + min(self._sender.delays_ms):
                hop = run_once(self._admit(message), log_unexpected("delaying a task further"))
                self._hops.add(hop)
                hop.add_done_callback(self._hops.discard)
            else:
                self._ready.append(message)
                self._on_ready()

    async def _commit_often(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_SECONDS)
            try:
                await self._consumer.commit()
            except ClientError as error:
                logger.warning("not committed yet: %s", error)

    async def _sweep_often(self) -> None:
        pause = min(self._visibility_ms / 1000 / SWEEPS_PER_TIMEOUT, SWEEP_SECONDS_MAX)
        while True:
            await asyncio.sleep(pause)
            for message in self._overdue():
                logger.warning("not settled in time, and given again: %s", _name(message))
                try:
                    await self.requeue(message, message.body)
                except ClientError as error:
                    logger.warning("not given again yet: %s", error)

    def _overdue(self) -> list[ConsumerMessage]:
        before_ms = steady_ms() - self._visibility_ms
        return [message for message, taken_ms in self.in_hand.items() if taken_ms < before_ms]


def _in_a_line(reason: str) -> str:
    """Return a reason as a line of the log has it: that of a framework may hold the whole body."""
    line = " ".join(reason.split())
    return line if len(line) <= REASON_MAX else f"{line[:REASON_MAX]} ..."


def _name(message: ConsumerMessage) -> str:
    return f"message {message.message_id} at {message.place}"
