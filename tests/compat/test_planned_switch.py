"""Python clients through planned switches of a real group: what a user awaits is stored, or done.

`wakelog cluster failover` is typed as an operator does. Meanwhile many producers send one by one,
in order and in transactions, and a consumer commits what it got.
"""

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

import pytest

from tests.actors.elected_group import QUEUES_COUNT, TOPIC, ElectedGroup, elected_group, read_whole
from wakelog.client import sync
from wakelog.client.consumer import Consumer
from wakelog.client.messages import Message
from wakelog.client.producer import Producer

pytestmark = [pytest.mark.process, pytest.mark.slow]

SWITCHES: Final = 2
"""To another replica and on, or back."""
SWITCHES_LONG: Final = 6
SETTLE_SECONDS: Final = 0.5
SENDERS: Final = 16
SEND_SECONDS_MAX: Final = 9.0
"""By default: three attempts of 3 s, or what is waited for in their place."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "switches", [SWITCHES, pytest.param(SWITCHES_LONG, marks=pytest.mark.long)]
)
def test_no_send_fails_at_a_planned_switch(tmp_path: Path, switches: int) -> None:
    asyncio.run(switch_under_load(tmp_path, switches))


async def switch_under_load(folder: Path, switches: int) -> None:
    async with elected_group(folder) as group:
        load = Load()
        async with Producer(group.name_server, group="senders") as first:
            await first.send(TOPIC, b"first")  # which makes the topic
        async with (
            Producer(group.name_server, group="senders", batching=False) as single,
            Producer(group.name_server, group="batches") as batches,
            Consumer(group.name_server, group="readers", topics=TOPIC, start="first") as consumer,
        ):
            works: list[Awaitable[None]] = [
                send_singles(single, load, number) for number in range(SENDERS)
            ]
            works += [
                send_lists(batches, load),
                send_in_order(batches, load),
                send_transactions(single, load),
                consume(consumer, load),
                asyncio.to_thread(send_without_asyncio, group.name_server, load),
            ]
            async with asyncio.TaskGroup() as tasks:
                for work in works:
                    tasks.create_task(as_coroutine(work))
                for _ in range(switches):
                    await asyncio.sleep(SETTLE_SECONDS)
                    await switch(group)
                await asyncio.sleep(SETTLE_SECONDS)
                load.is_over = True
        assert load.slowest_seconds < SEND_SECONDS_MAX
        await check(group, load)


class Load:
    """What the clients were told. acknowledged: bodies. ordered: those of one key, as sent."""

    def __init__(self) -> None:
        self.acknowledged: set[bytes] = set()
        self.ordered: list[bytes] = []
        self.consumed: set[bytes] = set()
        self.slowest_seconds = 0.0
        self.is_over = False

    async def note(self, sent: Awaitable[object], *bodies: bytes) -> None:
        began = time.monotonic()
        await sent
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)
        self.acknowledged.update(bodies)


async def as_coroutine(work: Awaitable[None]) -> None:
    await work


async def switch(group: ElectedGroup) -> None:
    """Let another replica lead, and wait until it serves and all are in sync again."""
    old = await group.serving()
    words = "cluster", "failover", "broker-a", "--yes", "-n", group.name_server
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "wakelog", *words, "--register", group.register),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert await group.serving() != old
    await group.until_in_sync(len(group.numbers))


async def send_singles(producer: Producer, load: Load, number: int) -> None:
    count = 0
    while not load.is_over:
        count += 1
        body = b"single %d %d" % (number, count)
        await load.note(producer.send(TOPIC, body), body)
        await asyncio.sleep(0.01)


async def send_lists(producer: Producer, load: Load) -> None:
    count = 0
    while not load.is_over:
        count += 1
        bodies = [b"list %d %d" % (count, n) for n in range(50)]
        await load.note(producer.send_many(Message(TOPIC, body) for body in bodies), *bodies)
        await asyncio.sleep(0.02)


async def send_in_order(producer: Producer, load: Load) -> None:
    count = 0
    while not load.is_over:
        bodies = [b"ordered %06d" % (count + n) for n in range(5)]
        count += len(bodies)
        load.ordered += bodies
        sends = [producer.send(TOPIC, body, sharding_key="key") for body in bodies]
        await load.note(asyncio.gather(*sends), *bodies)


async def send_transactions(producer: Producer, load: Load) -> None:
    count = 0
    while not load.is_over:
        count += 1
        body = b"transaction %d" % count
        async with producer.transaction(TOPIC, body):
            pass
        load.acknowledged.add(body)


async def consume(consumer: Consumer, load: Load) -> None:
    while not load.is_over:
        messages = await consumer.fetch(100, 0.1)
        await consumer.ack(*messages)
        await consumer.commit()
        load.consumed.update(message.body for message in messages)


def send_without_asyncio(name_server: str, load: Load) -> None:
    with sync.Producer(name_server, group="twins") as producer:
        count = 0
        while not load.is_over:
            count += 1
            producer.send(TOPIC, body := b"twin %d" % count)
            load.acknowledged.add(body)


async def check(group: ElectedGroup, load: Load) -> None:
    """Assert that all is stored, in order where it was sent so, and read on from the offsets."""
    count = len(load.acknowledged) + QUEUES_COUNT
    found = await read_whole(group, await group.serving(), count)
    bodies = set(found.values())
    assert load.acknowledged <= bodies, sorted(load.acknowledged - bodies)[:3]
    by_queue: dict[int, list[bytes]] = defaultdict(list)
    for (queue_id, _), body in sorted(found.items()):
        if body.startswith(b"ordered"):
            by_queue[queue_id].append(body)
    [stored] = by_queue.values()
    # A request that was stored, and whose answer was lost, is there again: as a whole.
    first = list(dict.fromkeys(stored))
    assert first == load.ordered, "out of order"
    assert load.consumed
