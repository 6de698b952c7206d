"""The shell of the console: it reads a cluster again and again, for all viewers at once.

    run        reads in turns; how often depends on whether there is a viewer
    next       waits for a later reading, as the live parts of pages do
    topic_ends what topics hold, asked in bounded parallel and kept for the next viewer
    next_due, open_halves, accounts
               what one page each wants besides, read once for all of its viewers

Invariants: one hundred viewers cost the brokers what one costs. A cluster that is away is said, and
what it said before is shown on.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.console.cluster_accounts import BrokerAccounts, read_accounts
from wakelog.console.cluster_reading import ClusterReading, read_cluster, with_kept
from wakelog.console.ends import Ends
from wakelog.console.findings import find
from wakelog.console.history import History
from wakelog.console.name_servers import NameServerDetails, read_name_servers
from wakelog.console.overdue import places
from wakelog.console.rules import Finding
from wakelog.console.shared import Shared
from wakelog.console.waiting import DelayedMessage, OpenHalves, read_next_due, read_open_halves
from wakelog.network.background import awaited

WATCHED_SECONDS: Final = 5.0
"""Between two readings while there is a viewer."""
UNWATCHED_SECONDS: Final = 120.0
"""Between two readings without a viewer: the last hour is kept all the same, in such steps."""
READING_SHARE_MAX: Final = 0.1
"""Of the time that readings take: those of a large cluster come less often."""
PAUSE_SECONDS_MAX: Final = 60.0
WATCHED_MS: Final = 60_000
"""How long after a page was asked for there is a viewer."""
OLD_MS: Final = 30_000
"""What is older is read again before a page is shown, if that comes within FRESH_SECONDS_MAX."""
FRESH_SECONDS_MAX: Final = 0.1
RATE_MS_MAX: Final = 900_000
"""Between two readings of a topic's ends that make a rate."""
FIRST_SECONDS_MAX: Final = 3.0
"""How long a page waits for the first reading."""
TOPICS_AT_ONCE_MAX: Final = 32
TOPICS_A_READING: Final = 256
"""Topics whose ends are read with each reading, in turns."""
ENDS_SECONDS_MAX: Final = 2.0
"""How long a page waits for the ends of its topics; it shows those that came."""
ENDS_FRESH_MS: Final = 4_000

logger = logging.getLogger("wakelog.console")

Clock = Callable[[], int]


class ClusterReader:
    """See the module. One loop."""

    def __init__(self, admin: Admin, now_ms: Clock) -> None:
        """Read nothing yet."""
        self.admin = admin
        self.history = History()
        self.findings: list[Finding] = []
        self.shown = ClusterReading(0)
        self.name_servers: list[NameServerDetails] = []
        self.number = 0
        self.has_ended = False
        self._now_ms = now_ms
        self._viewed_ms = 0
        self._turn = asyncio.Condition()
        self._is_asked = False
        self._wake = asyncio.Event()
        self._ends: dict[str, Ends] = {}
        self._asked: dict[str, asyncio.Future[None]] = {}
        self._topic_slots = asyncio.Semaphore(TOPICS_AT_ONCE_MAX)
        self._next_topic = 0
        self.next_due: Shared[Sequence[DelayedMessage]] = Shared(self._read_next_due, (), now_ms)
        self.open_halves: Shared[Sequence[OpenHalves]] = Shared(self._read_halves, (), now_ms)
        self.accounts: Shared[Sequence[BrokerAccounts]] = Shared(self._read_accounts, (), now_ms)

    @property
    def now_ms(self) -> int:
        """The time, as the readings have it."""
        return self._now_ms()

    @property
    def age_ms(self) -> int:
        """How old what is shown is."""
        return self.now_ms - self.shown.taken_ms if self.shown.taken_ms else 0

    @property
    def failure(self) -> ClientError | None:
        """Why nothing newer could be read, None if it could."""
        return self.history.latest.failure

    @property
    def is_whole(self) -> bool:
        """Whether what is shown is all of the cluster: only then something is missing there."""
        brokers = self.shown.brokers
        return self.shown.taken_ms > 0 and not self.failure and not any(x.failure for x in brokers)

    async def run(self) -> None:
        """Read until cancelled."""
        seconds = asyncio.get_running_loop().time
        while True:
            self._is_asked = False
            began_seconds = seconds()
            await self.read()
            ended_seconds = seconds()
            await self._pause(ended_seconds, ended_seconds - began_seconds)

    async def _pause(self, ended_seconds: float, taken_seconds: float) -> None:
        """Wait until the next reading is due; a viewer who comes meanwhile makes it due sooner."""
        while not self._is_asked:
            self._wake.clear()
            pause_seconds = pause_after(taken_seconds, is_watched=self.is_watched)
            due_seconds = ended_seconds + pause_seconds
            if asyncio.get_running_loop().time() >= due_seconds:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due_seconds):
                    await self._wake.wait()

    async def read(self) -> None:
        """Read the cluster once, and let those who wait for it go on."""
        before = self.findings if self.number else None
        cluster = await read_cluster(self.admin, self.now_ms, self.shown)
        self.history.add(cluster)
        self.findings = find(self.history, before)
        if cluster.failure is None or not self.shown.taken_ms:
            self.shown = with_kept(cluster, self.shown)
            self._forget_shared()
            self.name_servers = await read_name_servers(self.admin, cluster.name_servers)
            if self.is_watched:
                await self._read_some_topics()
        async with self._turn:
            self.number += 1
            self._turn.notify_all()

    @property
    def is_watched(self) -> bool:
        """Whether a page was asked for of late, or is kept new."""
        return self.now_ms - self._viewed_ms < WATCHED_MS

    def on_viewer(self) -> None:
        """Note that there is a viewer: the next reading comes soon."""
        was_watched = self.is_watched
        self._viewed_ms = self.now_ms
        if not was_watched:
            self._is_asked |= self.age_ms > WATCHED_SECONDS * 1000
            self._wake.set()

    def read_soon(self) -> None:
        """Read at once: something was changed."""
        self._ends.clear()
        self._forget_shared()
        self._is_asked = True
        self._wake.set()

    def _forget_shared(self) -> None:
        """Have what pages want besides read again: it belongs to the reading."""
        for shared in (self.next_due, self.open_halves, self.accounts):
            shared.forget()

    async def next(self, number: int) -> int:
        """Wait until there is a later reading than `number`, or none will come.

        It returns the number of the latest one.
        """
        async with self._turn:
            await self._turn.wait_for(lambda: self.number > number or self.has_ended)
        return self.number

    async def end(self) -> None:
        """Let those who wait for a reading go: none will come."""
        async with self._turn:
            self.has_ended = True
            self._turn.notify_all()

    async def viewed(self) -> None:
        """Note a viewer. Wait for the first reading, or a moment for the next if none watched."""
        was_watched = self.is_watched
        self.on_viewer()
        if self.number and (was_watched or self.age_ms < OLD_MS):
            return
        seconds_max = FRESH_SECONDS_MAX if self.number else FIRST_SECONDS_MAX
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await self.next(self.number)

    @property
    def known_ends(self) -> Mapping[str, Ends]:
        """What was read of topics until now."""
        return self._ends

    async def topic_ends(self, topics: Iterable[str]) -> dict[str, Ends]:
        """Return what topics hold, as far as it comes in time."""
        wanted = list(topics)
        now_ms = self.now_ms
        fresh = {
            x for x in wanted if x in self._ends and now_ms - self._ends[x].read_ms < ENDS_FRESH_MS
        }
        tasks = [self._ask_ends(topic) for topic in wanted if topic not in fresh]
        if tasks:
            await asyncio.wait(tasks, timeout=ENDS_SECONDS_MAX)
        return {topic: self._ends[topic] for topic in wanted if topic in self._ends}

    def _ask_ends(self, topic: str) -> "asyncio.Future[None]":
        """Return the task that asks for a topic: viewers share it."""
        if (task := self._asked.get(topic)) is None:
            task = self._asked[topic] = awaited(self._read_ends(topic))
            task.add_done_callback(lambda _: self._asked.pop(topic, None))
        return task

    async def _read_ends(self, topic: str) -> None:
        async with self._topic_slots:
            try:
                table = await self.admin.topic_stats(topic)
            except ClientError as error:
                self._ends.pop(topic, None)
                logger.debug("no ends of %s: %s", topic, error)
                return
        added = sum(ends.max_offset for ends in table.offset_table.values())
        then = self._ends.get(topic)
        is_near = then is not None and self.now_ms - then.read_ms <= RATE_MS_MAX
        before = (then.read_ms, then.added) if then is not None and is_near else (0, 0)
        self._ends[topic] = Ends(self.now_ms, table, added, *before)

    async def _read_next_due(self) -> Sequence[DelayedMessage]:
        return await read_next_due(self.admin, places(self.history, self.shown))

    async def _read_halves(self) -> Sequence[OpenHalves]:
        asked = [
            read_open_halves(self.admin, broker.name, broker.address, broker.messages.halves)
            for broker in self.shown.brokers
            if broker.messages is not None and broker.messages.halves is not None
        ]
        return await asyncio.gather(*asked)

    async def _read_accounts(self) -> Sequence[BrokerAccounts]:
        return await read_accounts(self.admin, self.shown)

    async def _read_some_topics(self) -> None:
        """Read the ends of the next topics: in some turns that is all."""
        names = sorted({name for broker in self.shown.brokers for name in broker.topics})
        for gone in self._ends.keys() - set(names):
            del self._ends[gone]
        begin = self._next_topic if self._next_topic < len(names) else 0
        self._next_topic = begin + TOPICS_A_READING
        await self.topic_ends(names[begin : self._next_topic])


def pause_after(taken_seconds: float, *, is_watched: bool) -> float:
    """Return how long to wait after a reading that took so long."""
    pause_seconds = WATCHED_SECONDS if is_watched else UNWATCHED_SECONDS
    return max(pause_seconds, min(PAUSE_SECONDS_MAX, taken_seconds / READING_SHARE_MAX))
