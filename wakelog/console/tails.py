"""The live tails of topics: what is stored now, for all viewers of the same topic and filter.

One tail pulls each queue as one consumer does, however many look at it. Pulls wait at brokers and
have slots of their own, so that no page waits for them.

Invariants: at most `TAILS_MAX` tails and `QUEUES_MAX` queues of each. A viewer has at most
`WAITING_MAX` messages that wait; further ones are counted, and not kept. Without a viewer there is
no pull.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from wakelog.client.admin import Admin
from wakelog.client.broker_calls import BrokerCalls
from wakelog.client.errors import ClientError, log_unexpected
from wakelog.client.message_filter import make_filter
from wakelog.client.queue_puller import FOLLOWED_MAX, HOLD_MS, QueuePuller
from wakelog.client.received import ReceivedMessage
from wakelog.network.background import run_once

TAILS_MAX: Final = 32
QUEUES_MAX: Final = 256
WAITING_MAX: Final = 200
AGAIN_SECONDS: Final = 1.0

CONSOLE_FILTERS: Final = (
    "this broker does not filter by SQL92 (enablePropertyFilter): the console reads all of the "
    "topic, and filters"
)


class TailOf(NamedTuple):
    """What viewers share."""

    topic: str
    tags: str = "*"
    sql: str = ""


class Viewer:
    """One who looks at a tail. dropped: messages that came while too many waited."""

    def __init__(self, tail: "_Tail") -> None:
        """Nothing has come yet."""
        self.waiting: asyncio.Queue[ReceivedMessage] = asyncio.Queue(WAITING_MAX)
        self.dropped = 0
        self._tail = tail

    @property
    def said(self) -> str:
        """What the viewer should know of the tail, "" for nothing."""
        return self._tail.said

    async def next(self, seconds_max: float) -> list[ReceivedMessage]:
        """Return what has come, after the first or after a time."""
        found: list[ReceivedMessage] = []
        try:
            async with asyncio.timeout(seconds_max):
                found.append(await self.waiting.get())
        except TimeoutError:
            return found
        while not self.waiting.empty():
            found.append(self.waiting.get_nowait())
        return found

    def give(self, message: ReceivedMessage) -> None:
        """Let a message wait, or count it."""
        if self.waiting.full():
            self.dropped += 1
        else:
            self.waiting.put_nowait(message)


class Tails:
    """See the module. One loop."""

    def __init__(self, admin: Admin) -> None:
        """Pull nothing yet."""
        self._admin = admin
        self._calls: BrokerCalls | None = None
        self._tails: dict[TailOf, _Tail] = {}

    @property
    def count(self) -> int:
        """How many tails there are."""
        return len(self._tails)

    @asynccontextmanager
    async def watch(self, wanted: TailOf) -> AsyncIterator[Viewer]:
        """Yield a viewer of a tail, which others may look at as well. Raises: ClientError."""
        tail = self._tails.get(wanted)
        if tail is None:
            if len(self._tails) >= TAILS_MAX:
                cause = f"{TAILS_MAX} tails are open at this console"
                raise ClientError(cause, "Close one, or use wakelog tail")
            self._calls = self._calls or self._admin.more_calls()
            tail = self._tails[wanted] = _Tail(self._admin, self._calls, wanted)
        viewer = Viewer(tail)
        tail.viewers.add(viewer)
        try:
            yield viewer
        finally:
            tail.viewers.discard(viewer)
            if not tail.viewers:
                tail.task.cancel()
                if self._tails.get(wanted) is tail:
                    del self._tails[wanted]


class _Tail:
    """The pulls of one topic and filter."""

    def __init__(self, admin: Admin, calls: BrokerCalls, wanted: TailOf) -> None:
        self.viewers: set[Viewer] = set()
        self.said = ""
        self._admin, self._calls, self._wanted = admin, calls, wanted
        self._accepts = make_filter(wanted.tags, wanted.sql)
        self.task = run_once(self._run(), log_unexpected("a tail"))

    async def _run(self) -> None:
        while True:
            try:
                pullers = await self._begin()
                break
            except ClientError as error:
                self.said = error.cause
                await asyncio.sleep(AGAIN_SECONDS)
        hold_ms = max(1, HOLD_MS * FOLLOWED_MAX // max(FOLLOWED_MAX, len(pullers)))
        async with asyncio.TaskGroup() as group:
            for puller in pullers:
                group.create_task(self._read(puller, hold_ms))

    async def _begin(self) -> list[QueuePuller]:
        queues = await self._admin.queues(self._wanted.topic)
        self.said = ""
        if len(queues) > QUEUES_MAX:
            self.said = f"{QUEUES_MAX} of {len(queues):,} queues are followed"
        followed = queues[:QUEUES_MAX]
        ends = await asyncio.gather(*(self._calls.max_offset(each) for each in followed))
        _, tags, sql = self._wanted
        return [
            QueuePuller(self._calls, queue, end, end, tags, self._accepts, sql=sql)
            for queue, end in zip(followed, ends, strict=True)
        ]

    async def _read(self, puller: QueuePuller, hold_ms: int) -> None:
        failed = ""
        while True:
            try:
                for message in await puller.pull(hold_ms=hold_ms):
                    for viewer in self.viewers:
                        viewer.give(message)
                if failed and self.said == failed:
                    self.said = ""
                failed = ""
            except ClientError as error:
                if puller.sql and error.code is not None:
                    puller.sql, self.said = "", CONSOLE_FILTERS
                    continue
                failed = self.said = error.cause
                await asyncio.sleep(AGAIN_SECONDS)
