"""Link: one connection of kombu to a cluster: a sender, and the readers of its queues.

    put        a message into the topics of its queues, or into that of its exchange
    read       a queue of a source from now on
    take       the next message of some queues
    settle     what became of it: done, given up, or to be done again

`BlockingLink` is the same for kombu, whose calls block.
"""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import count
from typing import Final, NamedTuple

from wakelog.celery.options import Options, Place
from wakelog.celery.payload import (
    PUT_IN,
    Payload,
    decode,
    due_ms_of,
    encode,
    key_of,
    tags_of,
)
from wakelog.client import Consumer, ConsumerMessage
from wakelog.client.instance import Opened
from wakelog.client.sync import Blocking, blocking
from wakelog.tasks.names import group_of_binding, topic_of_exchange, topic_of_queue
from wakelog.tasks.reader import NO_TIMEOUT, TaskReader
from wakelog.tasks.sender import TaskSender

EXCHANGE_QUEUES: Final = 1
"""Of the topic of an exchange: its messages stay in order."""


class Settled(Enum):
    """What became of a task."""

    DONE = "done"
    GIVEN_UP = "given up"
    AGAIN = "again"


class Source(NamedTuple):
    """What a queue reads. exchange: None for its own topic.

    is_shared: by a group, False for a temporary queue. start: where a new group begins.
    """

    queue: str
    exchange: str | None
    is_shared: bool
    start: str = "first"


class Taken(NamedTuple):
    """A message of a queue in hand. tag: by which it is settled."""

    queue: str
    tag: str
    payload: Payload


class _Delivery(NamedTuple):
    reader: TaskReader
    message: ConsumerMessage
    payload: Payload


class Link(Opened):
    """See the module. One loop, one thread."""

    def __init__(self, place: Place, options: Options, on_ready: Callable[[], None]) -> None:
        """Make no connection yet. on_ready: is called when there may be something to take."""
        self._place = place
        self._options = options
        self._on_ready = on_ready
        self._sender = TaskSender(
            place.name_servers,
            delay_levels=options.delay_levels,
            queues=options.queues,
            **place.settings,
        )
        self._readers: dict[Source, TaskReader] = {}
        self._retired: list[tuple[Source, TaskReader]] = []  # another reads their source since
        self._deliveries: dict[str, _Delivery] = {}
        self._tags = count(1)
        self._arrived = asyncio.Event()
        self._folders: dict[Source, tempfile.TemporaryDirectory[str]] = {}

    async def start(self) -> None:
        """Check that a name server answers. Raises: ClientError."""
        await self._sender.start()

    async def close(self) -> None:
        """Commit what is done; what is in hand is given to others."""
        for source in list(self._readers):
            await self._close_reader(source)
        await asyncio.gather(*(reader.close() for _, reader in self._retired if reader.is_open))
        await self._sender.close()

    async def _close_reader(self, source: Source) -> None:
        try:
            await self._readers.pop(source).close()
        finally:
            if (folder := self._folders.pop(source, None)) is not None:
                folder.cleanup()

    # Messages

    async def put(self, queues: Sequence[str], exchange: str | None, payload: Payload) -> None:
        """Return when a message is stored, for each queue and for an exchange.

        Raises: ClientError.
        """
        due_ms, key, tags = due_ms_of(payload), key_of(payload), tags_of(payload)
        for queue in queues:
            topic = self._topic(queue)
            await self._sender.declare(topic)
            await self._sender.put(topic, encode(payload), due_ms=due_ms, key=key, tags=tags)
        if exchange is not None:
            topic = topic_of_exchange(self._options.prefix, exchange)
            await self._sender.declare(topic, queues=EXCHANGE_QUEUES)
            body = encode({**payload, PUT_IN: list(queues)} if queues else payload)
            await self._sender.put(topic, body, due_ms=due_ms, key=key, tags=tags)

    async def take(self, queues: Sequence[str], wait_seconds: float) -> Taken | None:
        """Return the next message of one of these queues; None without one in time.

        Raises: ClientError.
        """
        deadline = asyncio.get_running_loop().time() + wait_seconds
        while True:
            self._arrived.clear()
            for source, reader in list(self._readers.items()):
                if source.queue in queues and (message := reader.take()) is not None:
                    self._readers[source] = self._readers.pop(source)  # the others are next
                    return self._hand_over(source, reader, message)
            try:
                async with asyncio.timeout_at(deadline):
                    await self._arrived.wait()
            except TimeoutError:
                return None

    def _hand_over(self, source: Source, reader: TaskReader, message: ConsumerMessage) -> Taken:
        payload, tag = decode(message.body), str(next(self._tags))
        payload["properties"]["delivery_tag"] = tag
        self._deliveries[tag] = _Delivery(reader, message, payload)
        return Taken(source.queue, tag, payload)

    async def settle(self, tag: str, outcome: Settled) -> None:
        """Note what became of a message. One that is not in hand stays. Raises: ClientError."""
        if (found := self._deliveries.get(tag)) is None:
            return
        reader, message, payload = found
        if outcome is Settled.AGAIN:
            payload["properties"]["delivery_info"]["redelivered"] = True
            await reader.requeue(message, encode(payload))
        elif outcome is Settled.GIVEN_UP:
            await reader.refuse(message, "rejected by the worker")
        else:
            await reader.ack(message)
        self._deliveries.pop(tag, None)

    # Queues

    async def exists(self, queue: str) -> bool:
        """Return whether the topic of a queue is there. Raises: ClientError."""
        return await self._sender.exists(self._topic(queue))

    async def declare(self, queue: str) -> None:
        """Make the topic of a queue if it is not there. Raises: ClientError."""
        await self._sender.declare(self._topic(queue))

    async def read(self, source: Source, accepts: Callable[[Payload], bool]) -> None:
        """Read a source from now on; it may be read already. Raises: ClientError."""
        reader = self._readers.get(source)
        if reader is not None and reader.is_open and not reader.is_retired:
            return
        if reader is not None:
            self._retired = [each for each in self._retired if each[1].is_open]
            self._retired.append((source, reader))
        prefix, queue, exchange = self._options.prefix, source.queue, source.exchange
        if exchange is None:
            topic = group = self._topic(queue)
            await self._sender.declare(topic)
        else:
            topic = topic_of_exchange(prefix, exchange)
            group = group_of_binding(prefix, queue, exchange) if source.is_shared else topic
            await self._sender.declare(topic, queues=EXCHANGE_QUEUES)
        home = self._topic(queue) if source.is_shared else topic
        if source.is_shared:
            await self._sender.declare(home)
        self._readers[source] = reader = TaskReader(
            self._consumer(source, topic, group),
            self._sender,
            home,
            accepts=lambda message: accepts(decode(message.body)),
            on_ready=self._wake,
            visibility_ms=self._options.visibility_ms,
            is_shared=source.is_shared,
        )
        try:
            await reader.start()
        except BaseException:
            await self._close_reader(source)
            raise

    def _consumer(self, source: Source, topic: str, group: str) -> Consumer:
        servers, settings = self._place
        if source.is_shared:
            return Consumer(
                servers,
                group=group,
                topics=topic,
                start=source.start,
                consume_timeout=NO_TIMEOUT,
                **settings,
            )
        # Its offsets are in a file, which no other reader may go on from.
        folder = self._folders[source] = tempfile.TemporaryDirectory(prefix="wakelog-celery-")
        return Consumer(
            servers,
            group=group,
            topics=topic,
            broadcast=True,
            offset_folder=folder.name,
            **settings,
        )

    def _wake(self) -> None:
        self._arrived.set()
        self._on_ready()

    async def retire(self, queue: str) -> None:
        """Take no more messages of a queue that a group shares; what is in hand can be settled."""
        for source, reader in self._readers.items():
            if source.queue == queue and source.is_shared:
                await reader.retire()

    async def forget(self, queue: str) -> None:
        """Read a queue no longer. Raises: ClientError."""
        for source in [source for source in self._readers if source.queue == queue]:
            await self._close_reader(source)
        for source, reader in self._retired:
            if source.queue == queue and reader.is_open:
                await reader.close()

    async def size(self, queue: str) -> int:
        """Return how many messages of a queue are not acknowledged. Raises: ClientError."""
        return await self._sender.size(self._topic(queue), self._topic(queue))

    async def purge(self, queue: str) -> int:
        """Skip the messages of a queue, and return how many. Raises: ClientError."""
        return await self._sender.purge(self._topic(queue), self._topic(queue))

    def _topic(self, queue: str) -> str:
        return topic_of_queue(self._options.prefix, queue)


class BlockingLink(Blocking[Link]):
    """The link for threads: each call blocks until it is done."""

    put = blocking(Link.put)
    take = blocking(Link.take)
    settle = blocking(Link.settle)
    exists = blocking(Link.exists)
    declare = blocking(Link.declare)
    read = blocking(Link.read)
    retire = blocking(Link.retire)
    forget = blocking(Link.forget)
    size = blocking(Link.size)
    purge = blocking(Link.purge)
