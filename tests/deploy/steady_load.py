"""A producer and consumers in a thread: all that boards show of topics, groups and clients moves.

One group takes every message, and sends some back to try again. Another gives every message up.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from wakelog.client import Consumer, Producer

TOPIC: Final = "steady"
PER_SECOND: Final = 40.0
RETRIED_EACH: Final = 20
"""One message of so many is sent back."""

RETRY_DELAY: Final = timedelta(seconds=1)


async def _send(name_server: str) -> None:
    async with Producer(name_server, group="senders") as producer:
        number = 0
        while True:
            await producer.send(TOPIC, b"%d" % number, keys=[str(number)])
            number += 1
            await asyncio.sleep(1 / PER_SECOND)


async def _take(name_server: str) -> None:
    async with Consumer(name_server, group="takers", topics=TOPIC, start="first") as consumer:
        async for message in consumer:
            is_first = message.reconsume_times == 0
            if is_first and message.queue_offset % RETRIED_EACH == 0:
                await message.nack(RETRY_DELAY)
            else:
                await message.ack()


async def _give_up(name_server: str) -> None:
    async with Consumer(
        name_server, group="losers", topics=TOPIC, start="first", max_retries=0
    ) as consumer:
        async for message in consumer:
            await message.nack()


@contextmanager
def steady_load(name_server: str) -> Iterator[None]:
    """Send and receive beside what follows. Raises at its end what the load has raised."""
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run() -> None:
        is_over = asyncio.Event()
        begun.set_result((asyncio.get_running_loop(), is_over))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(name_server)) for one in (_send, _take, _give_up)]
            await is_over.wait()
            for task in tasks:
                task.cancel()

    with ThreadPoolExecutor(1, "steady load") as thread:
        running = thread.submit(asyncio.run, run())
        loop, is_over = begun.result()
        try:
            yield
        finally:
            if not running.done():
                loop.call_soon_threadsafe(is_over.set)
            running.result()
