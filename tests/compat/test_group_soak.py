"""Python and Java consumers in two groups for ten minutes, while connections and broker fail.

SOAK_SECONDS in the environment makes it another time.
"""

import asyncio
import base64
import ctypes
import os
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import pytest

from tests.compat.driver import JavaDriver
from wakelog.client import ClientError, Consumer, Producer
from wakelog.testing import EmbeddedBroker

pytestmark = [pytest.mark.java, pytest.mark.slow]

SECONDS: Final = int(os.environ.get("SOAK_SECONDS", "600"))
TOPIC: Final = "soak"
QUEUES: Final = 8
NUMBERS_MAX: Final = 1_000_000
SEND_PAUSE_SECONDS: Final = 0.1
SENT_AT_ONCE: Final = 10
REBALANCE_SECONDS: Final = 20
DROP_SECONDS: Final = 30
RESTART_SECONDS: Final = 60
SETTLE_SECONDS_MAX: Final = 120.0
JAVA_REBALANCE_MS: Final = 2_000
MEMORY_GROWTH_MAX: Final = 1.1
"""In the second half. In the first, members, threads and tables come for the first time."""

JAVA: Final = 0
GROUPS: Final = {"ordered": True, "concurrent": False}


class Delivery(NamedTuple):
    """One message as one member got it. The order is that of time, then of the queue.

    number: what the message says. is_retry: from the group's retry topic.
    """

    time_ms: int
    queue_id: int
    queue_offset: int
    number: int
    member: int
    is_retry: bool


class Deliveries:
    """What one group was given.

    Invariants: memory does not grow with the messages but for 3 bytes each.
    """

    def __init__(self, numbers_max: int, queues_count: int) -> None:
        """Begin without a message. Numbers are below `numbers_max`."""
        self._seen = bytearray(numbers_max)
        self._members = [array("h") for _ in range(queues_count)]
        self.out_of_order = 0
        self.moved = self.read_again = self.sent_back = self.stored_twice = 0

    def add(self, one: Delivery) -> None:
        """Count a delivery; the group's are given in the order of their times."""
        was_seen = self._seen[one.number]
        self._seen[one.number] = 1
        if one.is_retry:
            self.sent_back += was_seen
            return
        members = self._members[one.queue_id]
        if one.queue_offset < len(members):
            is_known = members[one.queue_offset] >= 0
            self.read_again += is_known and members[one.queue_offset] == one.member
            self.moved += is_known and members[one.queue_offset] != one.member
            self.stored_twice += was_seen and not is_known
        else:
            self.stored_twice += was_seen
            gap = one.queue_offset - len(members)
            self.out_of_order += gap > 0
            members.extend([-1] * (gap + 1))
        members[one.queue_offset] = one.member

    def missing(self, numbers: range, unclear: frozenset[int]) -> int:
        """Count the numbers that the group never got, without those that may not be stored."""
        return sum(not self._seen[number] for number in numbers if number not in unclear)


class Group(NamedTuple):
    """What one group got."""

    lost: int
    out_of_order: int | None
    moved: int
    read_again: int
    sent_back: int
    stored_twice: int
    java: int
    python: int


class Soak(NamedTuple):
    """One run.

    acknowledged, unclear: sends. memory_*_mib: medians of the minute in the middle and of the last.
    """

    acknowledged: int
    unclear: int
    ordered: Group
    concurrent: Group
    restarts: int
    drops: int
    rebalances: int
    memory_first_mib: float
    memory_last_mib: float
    seconds: int
    load_average: float


class GroupUnderLoad:
    """The members of one group, and what they were given."""

    def __init__(self, name: str, *, ordered: bool, name_server: str) -> None:
        self.name, self.ordered = name, ordered
        self._name_server = name_server
        self.deliveries = Deliveries(NUMBERS_MAX, QUEUES)
        self._waiting: list[Delivery] = []
        self._members_count = JAVA
        self._extra: asyncio.Task[None] | None = None
        self.java_count = self.python_count = 0

    async def consume(self) -> None:
        """Be one more Python member, until cancelled."""
        self._members_count += 1
        member = self._members_count
        async with Consumer(
            self._name_server, group=self.name, topics=TOPIC, start="first", ordered=self.ordered
        ) as consumer:
            while True:
                for each in await consumer.fetch():
                    self.python_count += 1
                    place = each.queue.queue_id, each.queue_offset, int(each.body), member
                    is_retry = each.record.reconsume_times > 0
                    self._waiting.append(Delivery(_now_ms(), *place, is_retry))
                    await each.ack()

    async def rebalance(self) -> bool:
        """Let the extra member leave, or join. False if it could not join just now."""
        if self._extra is None:
            self._extra = asyncio.create_task(self.consume())
            return True
        extra, self._extra = self._extra, None
        extra.cancel()
        try:
            await extra
        except asyncio.CancelledError:
            return True
        except ClientError:
            return False
        return True

    async def collect(self, driver: JavaDriver) -> None:
        """Count what was given before now, to whomever."""
        before_ms = _now_ms()
        for each in await asyncio.to_thread(driver, "takeConsumed", name=self.name):
            number = int(base64.b64decode(each["body"]))
            place = each["queueId"], each["queueOffset"], number, JAVA
            is_retry = each["reconsumeTimes"] > 0
            self._waiting.append(Delivery(each["receivedAt"], *place, is_retry))
            self.java_count += 1
        self._waiting.sort()
        while self._waiting and self._waiting[0].time_ms < before_ms:
            self.deliveries.add(self._waiting.pop(0))

    def result(self, sent: range, unclear: frozenset[int]) -> Group:
        found = self.deliveries
        return Group(
            lost=found.missing(sent, unclear),
            out_of_order=found.out_of_order if self.ordered else None,
            moved=found.moved,
            read_again=found.read_again,
            sent_back=found.sent_back,
            stored_twice=found.stored_twice,
            java=self.java_count,
            python=self.python_count,
        )


class Load:
    """A producer, two groups and the failures, over one broker."""

    def __init__(self, broker: EmbeddedBroker, driver: JavaDriver) -> None:
        self._broker, self._driver = broker, driver
        self.groups = [
            GroupUnderLoad(name, ordered=ordered, name_server=broker.name_server)
            for name, ordered in GROUPS.items()
        ]
        self._unclear: set[int] = set()
        self._sent_count = 0
        self.restarts = self.drops = self.rebalances = 0
        self._memory_mib: list[float] = []

    async def run(self) -> Soak:
        for group in self.groups:
            start = {"name": group.name, "group": group.name, "topics": [TOPIC]}
            await asyncio.to_thread(self._driver, "consume", **start, orderly=group.ordered)
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            members = [tasks.create_task(group.consume()) for group in self.groups]
            sending = tasks.create_task(self._send())
            for second in range(1, SECONDS + 1):
                await asyncio.sleep(max(0.0, began + second - time.monotonic()))
                await self._disturb(second)
                await self._collect()
            sending.cancel()
            await self._settle()
            for member in members:
                member.cancel()
        return self._result(round(time.monotonic() - began))

    async def _send(self) -> None:
        async with Producer(self._broker.name_server, group="sending") as producer:
            while True:
                numbers = range(self._sent_count, self._sent_count + SENT_AT_ONCE)
                self._sent_count += SENT_AT_ONCE
                self._unclear.update(numbers)
                await asyncio.gather(*(self._send_one(producer, number) for number in numbers))
                await asyncio.sleep(SEND_PAUSE_SECONDS)

    async def _send_one(self, producer: Producer, number: int) -> None:
        with suppress(ClientError):
            await producer.send(TOPIC, b"%d" % number)
            self._unclear.discard(number)

    async def _disturb(self, second: int) -> None:
        if second % REBALANCE_SECONDS == 0:
            for group in self.groups:
                self.rebalances += await group.rebalance()
        if second % DROP_SECONDS == 10:
            await asyncio.to_thread(self._broker.drop_connections)
            self.drops += 1
        if second % RESTART_SECONDS == 45:
            await asyncio.to_thread(self._broker.restart)
            self.restarts += 1

    async def _collect(self) -> None:
        for group in self.groups:
            await group.collect(self._driver)
        self._memory_mib.append(_memory_mib())

    async def _settle(self) -> None:
        """Wait until each group has got all that was acknowledged, or the limit is over."""
        end = time.monotonic() + SETTLE_SECONDS_MAX
        while time.monotonic() < end:
            await self._collect()
            if not any(group.deliveries.missing(*self._outcome()) for group in self.groups):
                return
            await asyncio.sleep(1.0)

    def _outcome(self) -> tuple[range, frozenset[int]]:
        return range(self._sent_count), frozenset(self._unclear)

    def _result(self, seconds: int) -> Soak:
        half = len(self._memory_mib) // 2
        minutes = (self._memory_mib[at : at + 60] for at in range(0, len(self._memory_mib), 60))
        print("MiB by the minute:", [round(median(minute), 1) for minute in minutes])
        sent, unclear = self._outcome()
        ordered, concurrent = (group.result(sent, unclear) for group in self.groups)
        return Soak(
            acknowledged=len(sent) - len(unclear),
            unclear=len(unclear),
            ordered=ordered,
            concurrent=concurrent,
            restarts=self.restarts,
            drops=self.drops,
            rebalances=self.rebalances,
            memory_first_mib=round(median(self._memory_mib[half : half + 60]), 1),
            memory_last_mib=round(median(self._memory_mib[-60:]), 1),
            seconds=seconds,
            load_average=round(os.getloadavg()[0], 1),
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _memory_mib() -> float:
    """Return what the process uses for itself.

    The C library first gives back what was freed and lies between blocks in use. Pages of the
    broker's log do not count.
    """
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text().splitlines()
    [anonymous] = (line for line in status if line.startswith("RssAnon:"))
    return int(anonymous.split()[1]) / 1024


@pytest.mark.long
@pytest.mark.timeout(SECONDS + SETTLE_SECONDS_MAX + 180)
def test_nothing_is_lost_while_members_connections_and_broker_come_and_go(
    record_property: Callable[[str, object], None],
) -> None:
    with (
        EmbeddedBroker() as broker,
        JavaDriver(broker.name_server, rebalance_ms=JAVA_REBALANCE_MS) as driver,
    ):
        broker.create_topic(TOPIC, queues=QUEUES)
        soak = asyncio.run(Load(broker, driver).run())
    record_property("said", soak)
    for group in (soak.ordered, soak.concurrent):
        assert group.lost == 0
        assert group.java and group.python
    assert soak.ordered.out_of_order == 0
    assert soak.restarts and soak.drops and soak.rebalances
    assert soak.memory_last_mib < soak.memory_first_mib * MEMORY_GROWTH_MAX
