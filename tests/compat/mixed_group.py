"""A consumer group of Python and Java members at one cluster, and what both were given."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from tests.compat.clusters import Cluster
from tests.compat.driver import JavaDriver, bodies, message
from wakelog.client import Consumer, ConsumerMessage, Producer

SETTLE_SECONDS_MAX = 60.0
SETTLE_MS_MAX = 60_000
POLL_SECONDS = 0.05
TIMEOUT = timedelta(seconds=20)


class Scene(NamedTuple):
    """One cell of the matrix: a cluster, Java's client, a topic of four queues, and a group."""

    cluster: Cluster
    driver: JavaDriver
    topic: str
    group: str

    def run(self, work: Callable[["Scene"], Awaitable[None]]) -> None:
        """Run one cell."""

        async def main() -> None:
            async with asyncio.timeout(SETTLE_SECONDS_MAX * 2):
                await work(self)

        asyncio.run(main())

    async def java(self, do: str, **arguments: Any) -> Any:
        """Let Java's client do something, without holding up Python's."""
        return await asyncio.to_thread(self.driver, do, **arguments)

    def producer(self, **settings: Any) -> Producer:
        given = {"group": f"python_{self.topic}", "timeout": TIMEOUT, **settings}
        return Producer(self.cluster.name_server, **given)

    def consumer(self, **settings: Any) -> Consumer:
        given = {"group": self.group, "topics": self.topic, "start": "first", **settings}
        return Consumer(self.cluster.name_server, timeout=TIMEOUT, **given)

    async def java_consumes(self, **settings: Any) -> None:
        """Start Java's member of the group."""
        await self.java(
            "consume", name=self.topic, group=self.group, topics=[self.topic], **settings
        )

    async def java_got(self, count: int) -> list[bytes]:
        """Return the bodies that Java's member was given, once there are so many."""
        got = await self.java("consumed", name=self.topic, count=count, timeoutMs=SETTLE_MS_MAX)
        return bodies(got)

    async def java_leaves(self) -> None:
        await self.java("commit", name=self.topic)
        await self.java("stopConsuming", name=self.topic)

    async def java_sends(self, numbers: Sequence[int], **fields: Any) -> None:
        """Send numbers one after the other, to the queues in turn."""
        numbered = [message(self.topic, b"%d" % n, **fields) for n in numbers]
        await self.java("send", group="g", messages=numbered)

    async def java_has(self) -> list[int]:
        """Return the ids of the queues that Java's member has."""
        return list((await self.java("assigned", name=self.topic)).get(self.topic, []))

    async def shared_out(self, consumer: Consumer) -> tuple[list[int], list[int]]:
        """Return the queues of the Python and of the Java member, once all are shared out."""
        while True:
            mine = [queue.queue_id for queue in consumer.assignment]
            theirs = await self.java_has()
            if theirs and sorted(mine + theirs) == [0, 1, 2, 3]:
                return mine, sorted(theirs)
            await asyncio.sleep(POLL_SECONDS)


async def take(
    consumer: Consumer, count: int, *, is_acknowledged: bool = True
) -> list[ConsumerMessage]:
    """Return the next messages, exactly as many."""
    found: list[ConsumerMessage] = []
    end = time.monotonic() + SETTLE_SECONDS_MAX
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} came"
        for each in await consumer.fetch(count - len(found), 1.0):
            found.append(each)
            if is_acknowledged:
                await each.ack()
    return found


def numbers_of(found: Sequence[ConsumerMessage]) -> list[int]:
    return sorted(int(each.body) for each in found)
