"""Many messages that wait: for a consumer that is slow, and for room in a producer."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import pytest

from wakelog.client.consumer import Consumer
from wakelog.client.consumer_message import ConsumerMessage
from wakelog.client.errors import NotAcknowledged
from wakelog.client.group_calls import PULL_MESSAGES_MAX
from wakelog.client.messages import Message
from wakelog.client.process_queue import MESSAGES_MAX
from wakelog.client.producer import Producer
from wakelog.client.receipts import Receipt
from wakelog.testing import EmbeddedBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

COUNT: Final = 12_000
COUNT_LONG: Final = 100_000
SENDS_COUNT: Final = 4_000
QUEUES: Final = 4
BODY_BYTES: Final = 1_000
BYTES_MAX: Final = 100 << 20
"""What the process may take for what a consumer holds. All messages would take 300 MB or more."""
UNDER_WAY_MAX: Final = 1_000


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    settings = {"flushDiskType": "SYNC_FLUSH", "mappedFileSizeCommitLog": str(64 << 20)}
    with EmbeddedBroker(settings=settings) as running:
        running.create_topic("waiting", queues=QUEUES)
        yield running


@pytest.mark.parametrize("count", [COUNT, pytest.param(COUNT_LONG, marks=pytest.mark.long)])
def test_a_slow_consumer_holds_its_limit_and_loses_nothing(
    broker: EmbeddedBroker, count: int
) -> None:
    async def run() -> Counter[bytes]:
        name_server = broker.name_server
        async with Producer(name_server, group="p") as producer:
            bodies = [b"%06d" % n + b"." * (BODY_BYTES - 6) for n in range(count)]
            await producer.send_many(Message("waiting", body) for body in bodies)
        async with Consumer(name_server, group="slow", topics="waiting", start="first") as consumer:
            began_bytes = resident_bytes()
            held = await until_no_more(consumer)
            # One pull may exceed the limit of its queue.
            assert QUEUES * MESSAGES_MAX < len(held) <= QUEUES * (MESSAGES_MAX + PULL_MESSAGES_MAX)
            assert resident_bytes() - began_bytes < BYTES_MAX
            queues = consumer._inbox.queues.values()
            assert all(queue.full_reason for queue in queues if queue.messages_count)
            got = Counter(message.body[:6] for message in held)
            await consumer.ack(*held)
            while got.total() < count:
                messages = await consumer.fetch(1_000, 10.0)
                assert messages, got.total()
                await consumer.ack(*messages)
                got.update(message.body[:6] for message in messages)
            assert resident_bytes() - began_bytes < BYTES_MAX
        return got

    got = asyncio.run(run())
    assert (len(got), max(got.values())) == (count, 1)


async def until_no_more(consumer: Consumer) -> list[ConsumerMessage]:
    """Take without an `ack` until nothing comes any more."""
    held = list[ConsumerMessage]()
    while found := await consumer.fetch(10_000, 2.0):
        held += found
    return held


def test_what_finds_no_room_in_a_producer_is_an_error_and_is_not_stored(
    broker: EmbeddedBroker,
) -> None:
    async def run() -> list[Receipt | BaseException]:
        one_second = timedelta(seconds=1)
        producer = Producer(
            broker.name_server,
            group="p",
            messages_max=UNDER_WAY_MAX,
            timeout=one_second,
            retries_max=0,
        )
        async with producer:
            await producer.send("waiting", b"first")
            with broker.slow_disk(0.2):
                sends = [producer.send("waiting", b"%d" % n) for n in range(SENDS_COUNT)]
                sending = asyncio.gather(*sends, return_exceptions=True)
                most = 0
                while not sending.done():
                    most = max(most, producer._buffer.messages_count)
                    await asyncio.sleep(0.01)
            assert 0 < most <= UNDER_WAY_MAX
            assert producer._buffer.messages_count == producer._buffer.bytes_count == 0
        return await sending

    ends = asyncio.run(run())
    sent = {n for n, end in enumerate(ends) if isinstance(end, Receipt)}
    held = broker.wait_for_messages("waiting", count=1 + len(sent))
    stored = {message.body for message in held}
    assert {b"%d" % n for n in sent} <= stored
    refused = {n for n, end in enumerate(ends) if "are under way" in str(end)}
    assert sent and refused
    assert all(isinstance(end, Receipt | NotAcknowledged) for end in ends)
    assert not {b"%d" % n for n in refused} & stored
    # Each of the others was under way, and got no answer in time.
    others = set(range(SENDS_COUNT)) - sent - refused
    assert len(others) <= UNDER_WAY_MAX, ends[min(others)]


def resident_bytes() -> int:
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("VmRSS")]
    return int(line.split()[1]) << 10
