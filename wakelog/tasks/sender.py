"""TaskSender: puts tasks into topics, and asks about them.

    put        a task, at once or when it is due
    declare    a topic that is not there is made, with as many queues as workers may share
    size       how many tasks of a group are not acknowledged
    purge      a group goes on at the end of its topic

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor#{getConsumeStats, resetOffset}
(4.9.3).
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Final, Unpack

from wakelog.client import ClientError, Producer
from wakelog.client.admin import open_admin
from wakelog.client.clocks import wall_ms
from wakelog.client.instance import Opened
from wakelog.client.options import Settings, Target, check_setting_names, with_namespace
from wakelog.client.plain import whole_number
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.delay_levels import DEFAULT_DELAY_LEVELS
from wakelog.tasks.due import DUE_PROPERTY, delays_of, level_before

QUEUES: Final = 16
"""Of a topic that is made here: the most workers that can share it."""
ROUTE_SECONDS_MAX: Final = 5.0
"""How long a topic that was made may take until a name server knows it."""
ROUTE_POLL_SECONDS: Final = 0.05
END: Final = -1
"""The time by which a broker resets a group to the end."""


class TaskSender(Opened):
    """See the module. One loop, one thread."""

    def __init__(
        self,
        target: Target,
        *,
        delay_levels: str = DEFAULT_DELAY_LEVELS,
        queues: int = QUEUES,
        **settings: Unpack[Settings],
    ) -> None:
        """Make no connection yet.

        delay_levels: `messageDelayLevel` of the brokers. queues: of a topic that is made here.
        Raises: InvalidArgument.
        """
        check_setting_names(settings)  # a producer takes more, which a reader has not
        self.delays_ms = delays_of(delay_levels)
        self._queues = whole_number("queues", queues, 1)
        self._producer = Producer(target, **settings)
        admin_settings = settings.copy()
        self._opens_admin = open_admin(target, **admin_settings)
        self._declared: set[str] = set()
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Check that a name server answers. Raises: ClientError."""
        await self._stack.enter_async_context(self._producer)
        self._admin = await self._stack.enter_async_context(self._opens_admin)

    async def close(self) -> None:
        """Wait for what is under way, and close the connections."""
        await self._stack.aclose()

    async def put(
        self, topic: str, body: bytes, *, due_ms: int = 0, key: str = "", tags: str = ""
    ) -> None:
        """Return when a broker has stored a task. Raises: ClientError.

        due_ms: when it may be given to a worker, 0 for at once. key: what tools find it by.
        """
        level = level_before(due_ms - wall_ms(), self.delays_ms)
        properties = {DUE_PROPERTY: str(due_ms)} if due_ms else None
        await self._producer.send(
            topic, body, keys=key, tags=tags, properties=properties, delay_level=level
        )

    async def exists(self, topic: str) -> bool:
        """Return whether a name server knows a topic. Raises: ClientError."""
        if topic in self._declared:
            return True
        if await self._admin.routes.find(self._full(topic)) is None:
            return False
        self._declared.add(topic)
        return True

    async def declare(self, topic: str, *, queues: int = 0) -> None:
        """Make a topic unless it is there. Raises: ClientError.

        queues: at each broker, 0 for those of this sender.
        """
        if await self.exists(topic):
            return
        await self._admin.create_topic(topic, queues=queues or self._queues)
        for _ in range(round(ROUTE_SECONDS_MAX / ROUTE_POLL_SECONDS)):
            if await self.exists(topic):
                return
            await asyncio.sleep(ROUTE_POLL_SECONDS)
        cause = f"topic {topic} was made, and no name server knows it"
        raise ClientError(cause, "Check that the brokers register with this name server")

    async def size(self, topic: str, group: str) -> int:
        """Return how many tasks of a group are not acknowledged, those in hand among them.

        What is delayed is not counted. Raises: ClientError.
        """
        if not await self.exists(topic):
            return 0
        found = 0
        for address in await self._admin.brokers_of(self._full(topic)):
            stats = await self._admin.consume_stats_at(
                address, self._full(group), self._full(topic)
            )
            for place in stats.offset_table.values():
                found += max(place.broker_offset - max(place.consumer_offset, 0), 0)
        return found

    async def purge(self, topic: str, group: str) -> int:
        """Have a group go on at the end of its topic; return how many tasks it skips.

        A task that is in hand or delayed stays. Raises: ClientError.
        """
        count = await self.size(topic, group)
        if not count:
            return 0
        for queue in await self._admin.queues(self._full(topic)):
            end = await self._admin.calls.max_offset(queue)
            await self._admin.calls.commit_offset(queue, self._full(group), end)
        fields: dict[str, str | int | bool] = {"timestamp": END, "isForce": True}
        fields |= {"topic": self._full(topic), "group": self._full(group)}
        try:  # the members, which go by their own offsets
            for address in await self._admin.brokers_of(self._full(topic)):
                await self._admin.ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        except ClientError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
        return count

    def _full(self, name: str) -> str:
        return with_namespace(self._admin.options.namespace, name)
