"""Commits of a group's offsets, each at the broker of its queue and beside the other brokers.

4.9.3 makes a table at a group's first commit for a topic. Of first commits that come to it at once,
only one stays. So the first for each topic is answered by its broker before the others are sent.

Source: org.apache.rocketmq.broker.offset.ConsumerOffsetManager#commitOffset (4.9.3).
"""

import asyncio
from collections.abc import Mapping, Sequence

from wakelog.client.broker_calls import BrokerCalls
from wakelog.client.errors import ClientError
from wakelog.client.route import QueueAt


class OffsetCommits:
    """The commits of one group. One loop, one thread."""

    def __init__(self, calls: BrokerCalls, group: str) -> None:
        """Send no request yet."""
        self._calls = calls
        self._group = group
        self._known: set[tuple[str, str]] = set()  # broker and topic that have had a commit

    async def commit(self, offsets: Mapping[QueueAt, int]) -> dict[QueueAt, ClientError]:
        """Commit offsets, and return why some are not committed; the others are."""
        places: dict[tuple[str, str], list[QueueAt]] = {}
        for queue in offsets:
            places.setdefault((queue.broker, queue.topic), []).append(queue)
        commits = (self._commit_at(place, places[place], offsets) for place in places)
        failures: dict[QueueAt, ClientError] = {}
        for failed in await asyncio.gather(*commits):
            failures |= failed
        return failures

    async def _commit_at(
        self, place: tuple[str, str], queues: Sequence[QueueAt], offsets: Mapping[QueueAt, int]
    ) -> dict[QueueAt, ClientError]:
        """Commit the queues of one topic at one broker."""
        if place not in self._known:
            first, *others = queues
            if (error := await self._commit(first, offsets[first])) is not None:
                return dict.fromkeys(queues, error)
            self._known.add(place)
            queues = others
        errors = await asyncio.gather(*(self._commit(queue, offsets[queue]) for queue in queues))
        found = zip(queues, errors, strict=True)
        return {queue: error for queue, error in found if error is not None}

    async def _commit(self, queue: QueueAt, offset: int) -> ClientError | None:
        try:
            await self._calls.commit_offset(queue, self._group, offset)
        except ClientError as error:
            return error
        return None
