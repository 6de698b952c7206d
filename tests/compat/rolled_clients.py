"""Clients of both kinds that send and consume while brokers are stopped and started.

RocketMQ's own producer as it comes: 3 s for a send, two more tries, routes every 30 s. One producer
of each kind sends in order, by a key: Java's client never tries such a send again.
"""

import asyncio
import base64
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

from tests.compat.driver import JavaDriver, message
from wakelog.client.consumer import Consumer
from wakelog.client.errors import ClientError
from wakelog.client.producer import Producer

PLAIN, ORDERED = "plain", "ordered"
TOPICS: Final = (PLAIN, ORDERED)
QUEUES_COUNT: Final = 4
KEYS_COUNT: Final = 16
"""More than there are queues: each broker gets some."""

THINK_SECONDS: Final = 0.03
POLL_SECONDS: Final = 0.1
TAKE_SECONDS: Final = 0.2
USED_SECONDS_MAX: Final = 120.0
"""A client asks for the route each 30 s, and a consumer divides the queues each 20 s."""

UNUSED_SECONDS: Final = 5.0
SETTLED_SECONDS_MAX: Final = 120.0
JAVA_PROPERTIES: Final = {"driver.sendTimeoutMs": "3000", "driver.sendRetries": "2"}


class Place(NamedTuple):
    """Where a message is stored."""

    broker: str
    queue_id: int
    queue_offset: int


class Sender:
    """What a producer was told. failures: of its sends, by their text."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.stored: dict[bytes, Place] = {}
        self.failures = Counter[str]()
        self.slowest_seconds = 0.0
        self.used: dict[str, float] = {}

    def note(self, body: bytes, place: Place, began: float) -> None:
        """Note an acknowledgement. began: of the send, by the monotonic clock."""
        now = time.monotonic()
        self.stored[body] = place
        self.slowest_seconds = max(self.slowest_seconds, now - began)
        self.used[place.broker] = now


class Reader:
    """What a group was given.

    left_out: places before which something of their queue had not been given.
    changed: places that have shown two bodies.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.shown: dict[Place, bytes] = {}
        self.again_count = 0
        self.left_out: list[Place] = []
        self.changed: list[Place] = []
        self._next = defaultdict[tuple[str, int], int](int)

    def note(self, place: Place, body: bytes) -> None:
        """Note what came."""
        queue = place.broker, place.queue_id
        if place.queue_offset > self._next[queue]:
            self.left_out.append(place)
        self._next[queue] = max(self._next[queue], place.queue_offset + 1)
        self.again_count += place in self.shown
        if self.shown.setdefault(place, body) != body:
            self.changed.append(place)


class RolledClients:
    """Producers and consumers, Java's and the library's. One loop's thread."""

    def __init__(self, name_server: str, addresses: list[str]) -> None:
        """Start nothing. addresses: of the brokers that make the topics."""
        self._name_server, self._addresses = name_server, addresses
        self.senders = {
            f"{kind} {topic}": Sender(topic) for kind in ("java", "python") for topic in TOPICS
        }
        self.readers = {
            f"{kind} {topic}": Reader(topic) for kind in ("java", "python") for topic in TOPICS
        }
        self._is_over = False
        self._step, self._step_began = "the start", time.monotonic()
        self._sending: list[asyncio.Task[None]] = []
        self._reading: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have all of them at work; end them for certain."""
        async with AsyncExitStack() as undo:
            drivers = [JavaDriver(self._name_server, properties=JAVA_PROPERTIES) for _ in range(3)]
            for driver in drivers:
                undo.push_async_callback(asyncio.to_thread, driver.stop)
            plain, ordered, receiver = drivers
            for address in self._addresses:
                for topic in TOPICS:
                    options = {"address": address, "topic": topic, "queues": QUEUES_COUNT}
                    await asyncio.to_thread(receiver, "createTopic", **options)
            python = await undo.enter_async_context(Producer(self._name_server, group="python"))
            undo.callback(self._cancel)
            sends = {
                "java plain": self._java_sends(plain, "send"),
                "java ordered": self._java_sends(ordered, "sendOrdered"),
                "python plain": self._python_sends(python, is_ordered=False),
                "python ordered": self._python_sends(python, is_ordered=True),
            }
            start = asyncio.create_task
            self._sending = [start(self._keep_sending(name, each)) for name, each in sends.items()]
            for topic in TOPICS:
                options = {"name": topic, "group": f"java_{topic}", "topics": [topic]}
                is_ordered = topic == ORDERED
                await asyncio.to_thread(receiver, "consume", orderly=is_ordered, **options)
                self._reading.append(start(self._consume(topic, is_ordered=is_ordered)))
            self._reading.append(start(self._take(receiver)))
            yield

    def begin(self) -> None:
        """Forget what failed while all brokers ran, and JVMs were still loading their classes."""
        for sender in self.senders.values():
            sender.failures.clear()
            sender.slowest_seconds = 0.0

    def step(self, text: str) -> None:
        """Note what happens now: a failure says how long before it that was."""
        self._step, self._step_began = text, time.monotonic()

    async def until_used(self, brokers: list[str], since: float) -> None:
        """Return once every producer has sent to each of these names since then."""
        end = time.monotonic() + USED_SECONDS_MAX
        while missing := [
            (name, broker)
            for name, sender in self.senders.items()
            for broker in brokers
            if sender.used.get(broker, 0.0) < since
        ]:
            assert time.monotonic() < end, f"not sent: {missing}, {self.failures()}"
            self._raise_failures()
            await asyncio.sleep(POLL_SECONDS)

    def wait_unused(self, broker: str) -> None:
        """Return once no producer has sent to a broker for a while; in another thread."""
        end = time.monotonic() + USED_SECONDS_MAX
        while True:
            last = max(sender.used.get(broker, 0.0) for sender in self.senders.values())
            if time.monotonic() - last > UNUSED_SECONDS:
                return
            assert time.monotonic() < end, f"{broker} is still used"
            time.sleep(POLL_SECONDS)

    async def settle(self) -> None:
        """Send no more; return once all has come, or could have."""
        self._is_over = True
        await asyncio.gather(*self._sending)
        end = time.monotonic() + SETTLED_SECONDS_MAX
        while any(self.lost().values()) and time.monotonic() < end:
            self._raise_failures()
            await asyncio.sleep(POLL_SECONDS)

    def failures(self) -> dict[str, Counter[str]]:
        """Return the failed sends of each producer that has some."""
        return {name: each.failures for name, each in self.senders.items() if each.failures}

    def lost(self) -> dict[str, set[bytes]]:
        """Return, for each group, what was acknowledged and has not come."""
        found = {}
        for name, reader in self.readers.items():
            sent = {
                b
                for each in self.senders.values()
                if each.topic == reader.topic
                for b in each.stored
            }
            found[name] = sent - set(reader.shown.values())
        return found

    def out_of_order(self) -> list[str]:
        """Return what came before something earlier of its queue, or of its key there."""
        found = []
        for name, reader in self.readers.items():
            found += [f"{name}: changed {place}" for place in reader.changed]
            if reader.topic != ORDERED:
                continue
            found += [f"{name}: left out before {place}" for place in reader.left_out]
            last: dict[tuple[str, int, bytes], int] = {}
            seen = set[bytes]()
            for place, body in sorted(reader.shown.items()):
                key, _, number = body.rpartition(b" ")
                where = place.broker, place.queue_id, key
                # A send whose answer was lost is stored twice: the first one counts.
                if body not in seen and int(number) < last.get(where, -1):
                    found.append(f"{name}: {body!r} at {place} comes after {last[where]}")
                seen.add(body)
                last[where] = max(last.get(where, -1), int(number))
        return found

    def _cancel(self) -> None:
        self._is_over = True
        for task in (*self._sending, *self._reading):
            task.cancel()

    def _raise_failures(self) -> None:
        for task in (*self._sending, *self._reading):
            if task.done() and not task.cancelled() and (error := task.exception()):
                raise error

    async def _keep_sending(
        self, name: str, send: Callable[[int], Awaitable[tuple[bytes, Place]]]
    ) -> None:
        sender, number = self.senders[name], 0
        while not self._is_over:
            began = time.monotonic()
            try:
                body, place = await send(number)
            except Exception as error:
                since = time.monotonic() - self._step_began
                sender.failures[f"{since:.1f} s after {self._step}: {error!r:.200}"] += 1
            else:
                sender.note(body, place, began)
            number += 1
            await asyncio.sleep(THINK_SECONDS)

    def _java_sends(
        self, driver: JavaDriver, how: str
    ) -> Callable[[int], Awaitable[tuple[bytes, Place]]]:
        is_ordered = how == "sendOrdered"
        topic = ORDERED if is_ordered else PLAIN

        async def send(number: int) -> tuple[bytes, Place]:
            key = number % KEYS_COUNT
            body = b"java %d %d" % (key, number)
            one = message(topic, body, orderKey=key)
            [sent] = await asyncio.to_thread(driver, how, group=f"java_{how}", messages=[one])
            if sent["status"] != "SEND_OK":
                raise AssertionError(sent["status"])
            return body, place_of(sent)

        return send

    def _python_sends(
        self, producer: Producer, *, is_ordered: bool
    ) -> Callable[[int], Awaitable[tuple[bytes, Place]]]:
        async def send(number: int) -> tuple[bytes, Place]:
            key = number % KEYS_COUNT
            body = b"python %d %d" % (key, number)
            if is_ordered:
                sent = await producer.send(ORDERED, body, sharding_key=str(key))
            else:
                sent = await producer.send(PLAIN, body)
            return body, Place(sent.broker, sent.queue_id, sent.queue_offset)

        return send

    async def _take(self, driver: JavaDriver) -> None:
        while True:
            for topic in TOPICS:
                reader = self.readers[f"java {topic}"]
                for one in await asyncio.to_thread(driver, "takeConsumed", name=topic):
                    reader.note(place_of(one), base64.b64decode(one["body"]))
            await asyncio.sleep(TAKE_SECONDS)

    async def _consume(self, topic: str, *, is_ordered: bool) -> None:
        reader = self.readers[f"python {topic}"]
        async with Consumer(
            self._name_server,
            group=f"python_{topic}",
            topics=topic,
            start="first",
            ordered=is_ordered,
        ) as consumer:
            async for one in consumer:
                reader.note(Place(one.broker, one.queue_id, one.queue_offset), one.body)
                with suppress(ClientError):
                    await one.ack()


def place_of(said: dict[str, Any]) -> Place:
    """Return the place that the driver says."""
    return Place(said["broker"], said["queueId"], said["queueOffset"])
