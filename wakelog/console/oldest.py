"""When the oldest messages of topics were stored, asked for once for all viewers.

A page waits for it a moment, and shows it with the next reading if it comes later.

Invariants: a topic is asked for once in `FRESH_MS`, or in `EMPTY_FRESH_MS`, with `QUEUES_MAX`
requests at most.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.network.background import awaited, gathered
from wakelog.protocol.bodies import TopicStatsTable
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode as Code

FRESH_MS: Final = 30_000
EMPTY_FRESH_MS: Final = 2_000
"""Of a topic that had nothing: its first message is news."""
TOPICS_MAX: Final = 256
"""Topics whose oldest message is kept; the one that was asked for first is forgotten."""
QUEUES_MAX: Final = 64
"""Queues of a topic that are asked for."""
IN_FLIGHT_MAX: Final = 8
PAGE_SECONDS_MAX: Final = 0.2
"""How long a page waits."""
TOPIC_SECONDS_MAX: Final = 3.0
"""How long brokers may take for one topic."""


class Oldest(NamedTuple):
    """When the oldest message of a topic was stored; 0 if it has none, or no broker says it.

    queues_left: queues that were not asked for.
    """

    read_ms: int
    stored_ms: int
    queues_left: int


class OldestMessages:
    """See the module. One loop."""

    def __init__(self, admin: Admin, now_ms: Callable[[], int]) -> None:
        """Ask nothing yet."""
        self._admin = admin
        self._now_ms = now_ms
        self._known: dict[str, Oldest] = {}
        self._asked: dict[str, asyncio.Future[None]] = {}

    async def of(
        self, topic: str, table: TopicStatsTable, addresses: Mapping[str, str]
    ) -> Oldest | None:
        """Return what is known of a topic, None for nothing yet. addresses: by broker name."""
        known = self._known.get(topic)
        fresh_ms = FRESH_MS if known is not None and known.stored_ms else EMPTY_FRESH_MS
        if known is None or self._now_ms() - known.read_ms >= fresh_ms:
            if (task := self._asked.get(topic)) is None:
                task = self._asked[topic] = awaited(self._read(topic, table, addresses))
                task.add_done_callback(lambda _: self._asked.pop(topic, None))
            await asyncio.wait([task], timeout=PAGE_SECONDS_MAX)
        return self._known.get(topic)

    async def _read(self, topic: str, table: TopicStatsTable, addresses: Mapping[str, str]) -> None:
        held = [
            queue
            for queue, ends in sorted(table.offset_table.items())
            if ends.max_offset > ends.min_offset and queue.broker_name in addresses
        ]
        found: list[int] = []

        async def one(queue: MessageQueue) -> None:
            fields = {"topic": topic, "queueId": queue.queue_id}
            address, code = addresses[queue.broker_name], Code.GET_EARLIEST_MSG_STORETIME
            with suppress(ClientError):  # of the other queues it is known
                response = await self._admin.ask(address, code, fields)
                text = response.ext_fields.get("timestamp", "")
                if text.isdecimal() and int(text) > 0:
                    found.append(int(text))

        with suppress(TimeoutError):
            async with asyncio.timeout(TOPIC_SECONDS_MAX):
                await gathered(one, held[:QUEUES_MAX], at_once_max=IN_FLIGHT_MAX)
        left = max(0, len(held) - QUEUES_MAX)
        self._known.pop(topic, None)
        self._known[topic] = Oldest(self._now_ms(), min(found, default=0), left)
        while len(self._known) > TOPICS_MAX:
            del self._known[next(iter(self._known))]
