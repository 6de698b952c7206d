"""The ways in which the Python client sends in measurements."""

import asyncio
import os
import time

from benchmarks.others import Ran
from benchmarks.rows import BODY_BYTES
from wakelog.client import Message, Producer

IN_FLIGHT = 256
BATCH_COUNT = 1_000
LISTS_IN_FLIGHT = 4

BODY = os.urandom(BODY_BYTES // 2).hex().encode()
"""Text, as most messages are; it is below the size that the client compresses."""


class Watch:
    """The time and this process's CPU from now on."""

    def __init__(self) -> None:
        """Begin."""
        self._seconds, self._cpu_seconds = time.perf_counter(), time.process_time()

    def ran(self) -> Ran:
        """Return both."""
        seconds = time.perf_counter() - self._seconds
        return Ran(seconds, time.process_time() - self._cpu_seconds)


async def send_one_by_one(producer: Producer, topic: str, count: int) -> None:
    """Send each message after the receipt of the one before."""
    for _ in range(count):
        await producer.send(topic, BODY)


async def send_in_flight(producer: Producer, topic: str, count: int) -> None:
    """Send with `IN_FLIGHT` callers, each one by one."""
    share = count // IN_FLIGHT
    await asyncio.gather(*(send_one_by_one(producer, topic, share) for _ in range(IN_FLIGHT)))


async def send_batches(producer: Producer, topic: str, count: int) -> None:
    """Send lists of `BATCH_COUNT` messages, one list after the other."""
    messages = [Message(topic, BODY)] * BATCH_COUNT
    for _ in range(count // BATCH_COUNT):
        await producer.send_many(messages)


async def send_batches_in_flight(producer: Producer, topic: str, count: int) -> None:
    """Send lists with `LISTS_IN_FLIGHT` callers, each one list after the other."""
    share = max(count // LISTS_IN_FLIGHT, BATCH_COUNT)
    callers = (send_batches(producer, topic, share) for _ in range(count // share))
    await asyncio.gather(*callers)


WAYS = {
    "one": send_one_by_one,
    "in flight": send_in_flight,
    "batches": send_batches,
    "batches in flight": send_batches_in_flight,
}
