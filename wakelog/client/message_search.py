"""Finds messages for a person: by id, by key, by time, by place. Every search is bounded.

Invariants: at most `Limits.rows` messages are returned, `Limits.examined` are read, and it takes
`Limits.seconds`. A limit that was reached is said. An id leads to brokers of the cluster alone.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from wakelog.client.admin import Admin, addresses_by_broker, records
from wakelog.client.errors import ClientError
from wakelog.client.message_filter import Accepts, make_filter
from wakelog.client.received import ReceivedMessage
from wakelog.client.route import QueueAt
from wakelog.network.background import gathered
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.message_id import decode_message_id

PULL_MAX: Final = 32
KEYED_MAX: Final = 64
"""Messages of one key that each broker is asked for, as mqadmin asks."""
COPIES_MAX: Final = 32
"""Messages of one id that each broker is asked for."""
TOPICS_MAX: Final = 1_000
TOPICS_AT_ONCE_MAX: Final = 16
"""Topics that are searched for a key or an id whose topic is not known."""


class SearchBounds(NamedTuple):
    """What a search may cost. examined: messages that are read; body_bytes: of those found."""

    rows: int = 100
    examined: int = 10_000
    seconds: float = 5.0
    body_bytes: int = 64 << 20


class Sought(NamedTuple):
    """Messages of a topic. from_ms, to_ms: when they were stored, 0 for no bound."""

    topic: str
    from_ms: int = 0
    to_ms: int = 0
    tags: str = "*"
    sql: str = ""
    text: str = ""
    is_oldest_first: bool = False


@dataclass
class Found:
    """What a search found. limits: those that were reached, in words."""

    messages: list[ReceivedMessage] = field(default_factory=list)
    examined: int = 0
    limits: list[str] = field(default_factory=list)


async def by_id(admin: Admin, message_id: str, topic: str = "") -> list[ReceivedMessage]:
    """Return the message with the id of a broker, or those with the id of a producer.

    topic: needed for the id of a producer. Raises: ClientError.
    """
    broker = await _broker_of(admin, message_id)
    failed: ClientError | None = None
    if broker:
        try:
            return [ReceivedMessage(await admin.view_message(message_id), broker=broker)]
        except ClientError as error:
            failed = error
        except ProtocolError as error:
            failed = ClientError(f"{message_id} names no message: {error}", "Check the id")
    if topic:
        found = [
            ReceivedMessage(record)
            for record in await admin.query_messages(topic, message_id, COPIES_MAX, is_unique=True)
        ]
        if named := [each for each in found if each.message_id == message_id]:
            named.sort(key=lambda each: each.record.store_timestamp_ms)
            return await _with_brokers(admin, named)
    if failed is not None:
        raise failed
    if not topic:
        cause = f"no broker of this cluster gave the id {message_id}"
        raise ClientError(cause, "If a producer gave it, name the topic, too")
    cause = f"topic {topic} has no message with the id {message_id}"
    raise ClientError(cause, "Check id and topic. It may have expired")


async def by_key(admin: Admin, topic: str, key: str, limits: SearchBounds | None = None) -> Found:
    """Return the messages with a key, the newest first. Raises: ClientError."""
    limits = limits or SearchBounds()
    asked = await admin.query_messages(topic, key, KEYED_MAX)
    messages = [x for x in map(ReceivedMessage, asked) if key in x.keys]
    messages.sort(key=lambda each: each.record.store_timestamp_ms, reverse=True)
    found = Found(await _with_brokers(admin, messages[: limits.rows]), len(asked))
    if len(asked) >= KEYED_MAX:
        found.limits.append(f"brokers were asked for {KEYED_MAX} messages of the key each")
    if len(messages) > limits.rows:
        found.limits.append(f"the newest {limits.rows:,} are shown")
    return found


async def anywhere(
    admin: Admin, name: str, topics: Sequence[str], limits: SearchBounds | None = None
) -> Found:
    """Return the messages of topics with an id or a key, the newest first. Raises: ClientError.

    topics: the likely ones first. An index has the ids of producers and the keys alike.
    """
    limits = limits or SearchBounds()
    found, failures, left = Found(), list[ClientError](), set(topics[:TOPICS_MAX])

    async def search(topic: str) -> None:
        try:
            asked = await admin.query_messages(topic, name, KEYED_MAX)
        except ClientError as error:
            failures.append(error)
            return
        left.discard(topic)
        found.examined += len(asked)
        fitting = (ReceivedMessage(record) for record in asked)
        found.messages += [x for x in fitting if name in x.keys or name == x.message_id]

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limits.seconds):
            if await _broker_of(admin, name):
                with contextlib.suppress(ClientError):
                    return Found(await by_id(admin, name))
            await gathered(search, topics[:TOPICS_MAX], at_once_max=TOPICS_AT_ONCE_MAX)
    if failures and not found.messages and len(failures) == len(topics[:TOPICS_MAX]):
        raise failures[0]
    if unread := len(left) + len(topics[TOPICS_MAX:]):
        found.limits.append(f"{unread:,} of {len(topics):,} topics were not searched")
    found.messages.sort(key=lambda each: each.record.store_timestamp_ms, reverse=True)
    if len(found.messages) > limits.rows:
        found.limits.append(f"the newest {limits.rows:,} are shown")
    found.messages = await _with_brokers(admin, found.messages[: limits.rows])
    return found


async def at_offset(
    admin: Admin, topic: str, broker: str, queue_id: int, offset: int
) -> list[ReceivedMessage]:
    """Return the message at an offset of a queue. Raises: ClientError without one."""
    queue = await admin.queue_at(MessageQueue(topic, broker, queue_id))
    pulled = await admin.calls.pull(queue, offset, 1)
    found = [x for x in records(pulled.body) if x.queue_offset == offset]
    if not found:
        cause = f"queue {queue_id} of topic {topic} at {broker} has no message at offset {offset:,}"
        last = f"It has offsets from {pulled.min_offset:,} to below {pulled.max_offset:,}"
        raise ClientError(cause, last)
    return [ReceivedMessage(found[0], broker=broker)]


async def by_time(admin: Admin, wanted: Sought, limits: SearchBounds | None = None) -> Found:
    """Return messages of a topic in the order of time, the newest first. Raises: ClientError."""
    limits = limits or SearchBounds()
    accepts = make_filter(wanted.tags, wanted.sql, wanted.text)
    found = Found()
    parts: list[_Part] = []
    try:
        async with asyncio.timeout(limits.seconds):
            queues = await admin.queues(wanted.topic)
            if not queues:
                remedy = "Give it the permission to read, or start its brokers"
                raise ClientError(f"no queue of topic {wanted.topic} can be read", remedy)
            parts = [_Part(admin, queue, wanted, accepts, found) for queue in queues]
            await asyncio.gather(*(each.begin() for each in parts))
            await _merge(parts, found, limits, is_oldest_first=wanted.is_oldest_first)
    except TimeoutError:
        found.limits.append(f"the search ended after {limits.seconds:g} s")
    for each in parts:
        if each.failure is not None:
            name = f"queue {each.queue.queue_id} of {each.queue.broker}"
            found.limits.append(f"{name} is missing: {each.failure.cause}")
    return found


async def _merge(
    parts: "list[_Part]", found: Found, limits: SearchBounds, *, is_oldest_first: bool
) -> None:
    sign = 1 if is_oldest_first else -1
    step = max(1, min(PULL_MAX, limits.examined // max(1, len(parts))))
    held_bytes = 0
    while len(found.messages) < limits.rows:
        if held_bytes > limits.body_bytes:
            found.limits.append(f"bodies of {limits.body_bytes >> 20:,} MiB were found")
            return
        while empty := [x for x in parts if not x.messages and x.is_left]:
            if found.examined >= limits.examined:
                found.limits.append(f"{found.examined:,} messages were read, and there are more")
                return
            await asyncio.gather(*(each.fill(step) for each in empty))
        waiting = [each for each in parts if each.messages]
        if not waiting:
            return
        first = min(waiting, key=lambda each: sign * each.messages[0].record.store_timestamp_ms)
        message = first.messages.popleft()
        held_bytes += len(message.record.body)
        found.messages.append(message)
    if any(each.messages or each.is_left for each in parts):
        word = "oldest" if is_oldest_first else "newest"
        found.limits.append(f"the {word} {limits.rows:,} are shown, and there may be more")


class _Part:
    """One queue of a search: the range of offsets that is left to read, from one of its ends."""

    def __init__(
        self, admin: Admin, queue: QueueAt, wanted: Sought, accepts: Accepts, found: Found
    ) -> None:
        self.queue = queue
        self.messages: deque[ReceivedMessage] = deque()
        self.failure: ClientError | None = None
        self._calls, self._wanted, self._accepts, self._found = (
            admin.calls, wanted, accepts, found,
        )  # fmt: skip
        self._low = self._high = 0

    @property
    def is_left(self) -> bool:
        return self.failure is None and self._low < self._high

    async def begin(self) -> None:
        try:
            low, high = within = await self._calls.range_of(self.queue)
            if self._wanted.to_ms:
                high = await self._calls.first_at(self.queue, self._wanted.to_ms + 1, within)
            if self._wanted.from_ms:
                low = await self._calls.first_at(self.queue, self._wanted.from_ms, within)
        except ClientError as error:
            self.failure = error
            return
        self._low, self._high = low, high

    async def fill(self, count: int) -> None:
        """Read the next part of the queue."""
        is_oldest_first = self._wanted.is_oldest_first
        begin = self._low if is_oldest_first else max(self._low, self._high - count)
        end = min(self._high, begin + count) if is_oldest_first else self._high
        read: list[ReceivedMessage] = []
        at = begin
        try:
            while at < end:
                pulled = await self._calls.pull(self.queue, at, end - at, self._wanted.tags or "*")
                for record in records(pulled.body):
                    if begin <= record.queue_offset < end:
                        read.append(ReceivedMessage(record, broker=self.queue.broker))
                if pulled.next_offset <= at:
                    break
                at = pulled.next_offset
        except ClientError as error:
            self.failure = error
            return
        self._found.examined += end - begin
        read = [each for each in read if self._accepts(each)]
        if is_oldest_first:
            self._low = end
        else:
            self._high = begin
            read.reverse()
        self.messages.extend(read)


async def _broker_of(admin: Admin, message_id: str) -> str:
    """Return the broker that gave an id, "" if it is none of the cluster."""
    try:
        (host, port), _ = decode_message_id(message_id)
    except (ProtocolError, ValueError):
        return ""
    wanted = f"{host}:{port}"
    for name, data in (await admin.cluster()).broker_addr_table.items():
        if wanted in data.broker_addrs.values():
            return name
    return ""


async def _with_brokers(admin: Admin, messages: Iterable[ReceivedMessage]) -> list[ReceivedMessage]:
    """Return messages with the names of their brokers, as far as their addresses are known."""
    found = list(messages)
    names: dict[str, str] = {}
    for topic in {each.record.topic for each in found}:
        addresses = addresses_by_broker(await admin.route(topic))
        names |= {address: name for name, address in addresses.items()}
    for each in found:
        host, port = each.record.store_host
        each.broker = names.get(f"{host}:{port}", "")
    return found
