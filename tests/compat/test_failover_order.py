"""What consumers are promised beside their messages, while masters are killed and stopped.

Queues in order, of Java and Python consumers; half messages, which are committed or rolled back;
delayed ones. A queue that goes on may begin at what was committed last, and never leaves one out.
"""

import asyncio
import base64
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.actors.elected_group import QUEUES_COUNT, ElectedGroup, begin_fault, elected_group
from tests.compat.driver import JavaDriver
from wakelog.client import ClientError, Consumer, Producer
from wakelog.client.received import ReceivedMessage
from wakelog.client.transactions import TransactionState

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]

ORDERED, DELAYED, ENDED = "ordered", "delayed", "ended"
FAULTS: Final = ("kill", "hold", "kill")
SETTINGS: Final = {
    "transactionCheckInterval": "2000",
    "transactionTimeOut": "3000",
    "transactionCheckMax": "1000",  # a new master may know no producer for 30 s
}
DELAY_LEVEL: Final = 2
"""5 s: some are due while there is no master."""

PAUSE_SECONDS: Final = 0.05
BACK_SECONDS_MAX: Final = 60.0
SETTLED_SECONDS_MAX: Final = 90.0
MEMBERS_COUNT: Final = 2
ROUTES_MS: Final = 2_000


class Order:
    """What the members of one group were given, queue by queue."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bodies: dict[tuple[int, int], bytes] = {}
        self.left_out: list[tuple[int, int]] = []
        self._next = defaultdict[int, int](int)

    def note(self, queue_id: int, offset: int, body: bytes) -> None:
        """Note what came, and whether something before it did not."""
        if offset > self._next[queue_id]:
            self.left_out.append((queue_id, offset))
        self._next[queue_id] = max(self._next[queue_id], offset + 1)
        assert self.bodies.setdefault((queue_id, offset), body) == body, (queue_id, offset)


class Work:
    """The producers and consumers of a run, which go on whatever happens."""

    def __init__(self, group: ElectedGroup, java: JavaDriver) -> None:
        self._group, self._java = group, java
        self.ordered: dict[int, list[bytes]] = {queue: [] for queue in range(QUEUES_COUNT)}
        self.delayed, self.halves = set[bytes](), set[bytes]()
        self.orders = {name: Order(name) for name in ("python", "java")}
        self.came = {DELAYED: Counter[bytes](), ENDED: Counter[bytes]()}
        self.failures = Counter[str]()
        self._tasks: list[asyncio.Task[None]] = []
        self._stops_sending = False

    async def start(self) -> None:
        """Begin with everything."""
        names = self._group.name_server
        self._producer = Producer(names, group="deciders", check=decide)
        await self._producer.start()
        senders = [self._send_ordered(queue) for queue in self.ordered]
        self._senders = [
            asyncio.create_task(one)
            for one in (*senders, self._send_delayed(), self._send_halves())
        ]
        await self.until_more()
        consumers = [self._consume_ordered() for _ in range(MEMBERS_COUNT)]
        consumers += [self._consume(topic) for topic in self.came]
        self._tasks = [asyncio.create_task(one) for one in consumers]
        await asyncio.to_thread(
            self._java, "consume", name="j", group="java", topics=[ORDERED], orderly=True
        )
        self._tasks.append(asyncio.create_task(self._take_java()))

    async def until_more(self) -> None:
        """Return once each sender has had some more acknowledged."""
        before, end = self._counts(), time.monotonic() + BACK_SECONDS_MAX
        while any(now < one + 5 for now, one in zip(self._counts(), before, strict=True)):
            assert time.monotonic() < end, self.failures.most_common(5)
            await asyncio.sleep(PAUSE_SECONDS)

    async def settle(self) -> None:
        """Send no more; return once all has come, or could have."""
        self._stops_sending = True
        await asyncio.gather(*self._senders)
        end = time.monotonic() + SETTLED_SECONDS_MAX
        while self.missing() and time.monotonic() < end:
            await asyncio.sleep(PAUSE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._producer.close()

    def missing(self) -> dict[str, set[bytes]]:
        """Return what was acknowledged and has not come."""
        ordered = {body for bodies in self.ordered.values() for body in bodies}
        wanted = {name: ordered - set(one.bodies.values()) for name, one in self.orders.items()}
        wanted[DELAYED] = self.delayed - self.came[DELAYED].keys()
        committed = {body for body in self.halves if outcome(body) is TransactionState.COMMIT}
        wanted[ENDED] = committed - self.came[ENDED].keys()
        return {name: bodies for name, bodies in wanted.items() if bodies}

    def _counts(self) -> list[int]:
        return [*map(len, self.ordered.values()), len(self.delayed), len(self.halves)]

    async def _send_ordered(self, queue: int) -> None:
        """Send one after the other to a queue; the next one when the one before is there."""
        number = 0
        while not self._stops_sending:
            body = b"%d %d" % (queue, number)
            try:
                place = (self._group.broker_name, queue) if number else None
                await self._producer.send(ORDERED, body, queue=place)
            except ClientError as error:
                self.failures[str(error)[:160]] += 1
            else:
                self.ordered[queue].append(body)
                number += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def _send_delayed(self) -> None:
        number = 0
        while not self._stops_sending:
            number += 1
            with suppress(ClientError):
                await self._producer.send(DELAYED, b"%d" % number, delay_level=DELAY_LEVEL)
                self.delayed.add(b"%d" % number)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _send_halves(self) -> None:
        number = 0
        while not self._stops_sending:
            number += 1
            body = b"%d" % number
            with suppress(ClientError):
                async with self._producer.transaction(ENDED, body) as transaction:
                    self.halves.add(body)  # the broker has acknowledged it
                    is_open = number % 3 == 0
                    transaction.state = TransactionState.UNKNOWN if is_open else outcome(body)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _consume_ordered(self) -> None:
        names, order = self._group.name_server, self.orders["python"]
        async with Consumer(
            names, group="python", topics=ORDERED, start="first", ordered=True
        ) as consumer:
            async for message in consumer:
                order.note(message.queue_id, message.queue_offset, message.body)
                with suppress(ClientError):
                    await message.ack()

    async def _consume(self, topic: str) -> None:
        names = self._group.name_server
        async with Consumer(names, group=topic, topics=topic, start="first") as consumer:
            async for message in consumer:
                self.came[topic][message.body] += 1
                with suppress(ClientError):
                    await message.ack()

    async def _take_java(self) -> None:
        while True:
            for one in await asyncio.to_thread(self._java, "takeConsumed", name="j"):
                body = base64.b64decode(one["body"])
                self.orders["java"].note(one["queueId"], one["queueOffset"], body)
            await asyncio.sleep(PAUSE_SECONDS)


def outcome(body: bytes) -> TransactionState:
    """Return what becomes of a transaction, which its number says."""
    return TransactionState.COMMIT if int(body) // 3 % 2 else TransactionState.ROLLBACK


async def decide(message: ReceivedMessage) -> TransactionState:
    """Answer a broker that asks about a transaction."""
    return outcome(message.body)


def test_order_outcomes_and_delays_outlive_masters(tmp_path: Path) -> None:
    asyncio.run(outlive(tmp_path))


async def outlive(folder: Path) -> None:
    async with elected_group(folder, settings=SETTINGS) as group:
        properties = {"driver.routesMs": str(ROUTES_MS)}
        with JavaDriver(group.name_server, properties=properties) as java:
            work = Work(group, java)
            await work.start()
            for fault in FAULTS:
                await group.until_in_sync(3)
                await work.until_more()
                end = begin_fault(group, await group.serving(), fault, (1, 2))
                await work.until_more()
                end()
            await group.until_in_sync(3)
            await work.settle()
        check(work)


def check(work: Work) -> None:
    """Assert every promise."""
    assert not work.missing(), {name: sorted(one)[:5] for name, one in work.missing().items()}
    for order in work.orders.values():
        assert not order.left_out, (order.name, order.left_out[:5])
        for queue, sent in work.ordered.items():
            offsets = sorted(place for place in order.bodies if place[0] == queue)
            numbers = [int(order.bodies[place].split()[1]) for place in offsets]
            own = [
                n
                for n, place in zip(numbers, offsets, strict=True)
                if order.bodies[place].startswith(b"%d " % queue)
            ]
            assert own == sorted(own), (order.name, queue)
            assert len(set(own)) >= len(sent) - 1
    rolled_back = {body for body in work.came[ENDED] if outcome(body) is TransactionState.ROLLBACK}
    assert not rolled_back, sorted(rolled_back)[:5]
