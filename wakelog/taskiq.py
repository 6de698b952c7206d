"""A broker of taskiq over RocketMQ, which the extra `taskiq` installs.

    broker = RocketMQBroker("127.0.0.1:9876")

A queue is a topic, and the workers are its group. A task is acknowledged as its `ack_type` says.
The label `delay` has the seconds after which a task is given to a worker. What is no task here
becomes a dead letter. What a worker held that died is given to another one.
"""

import math
from collections.abc import AsyncGenerator
from datetime import timedelta
from functools import partial
from typing import Final, Unpack

from taskiq import AckableMessage, AsyncBroker, BrokerMessage

from wakelog.client import Consumer, ConsumerMessage, InvalidArgument
from wakelog.client.clocks import wall_ms
from wakelog.client.options import Settings, Target
from wakelog.client.plain import plain_text, positive_milliseconds
from wakelog.protocol.delay_levels import DEFAULT_DELAY_LEVELS
from wakelog.tasks.names import topic_of_queue
from wakelog.tasks.reader import NO_TIMEOUT, VISIBILITY_TIMEOUT, NoTask, TaskReader
from wakelog.tasks.sender import QUEUES, TaskSender

PREFIX: Final = "taskiq-"
WAIT_SECONDS: Final = 3600.0


class RocketMQBroker(AsyncBroker):
    """See the module."""

    def __init__(
        self,
        name_servers: Target,
        *,
        queue: str = "tasks",
        queues: int = QUEUES,
        visibility_timeout: timedelta = VISIBILITY_TIMEOUT,
        delay_levels: str = DEFAULT_DELAY_LEVELS,
        **settings: Unpack[Settings],
    ) -> None:
        """Make no connection yet.

        name_servers: `HOST:PORT`, several with semicolons between.
        queue: which tasks are sent to, and workers take from.
        queues: of its topic at each broker, if that is made here: the most workers.
        visibility_timeout: when a task that is not acknowledged is given again.
        delay_levels: `messageDelayLevel` of the brokers. settings: as of a `Producer`.
        Raises: InvalidArgument.
        """
        super().__init__()
        self._make_sender = partial(
            TaskSender, name_servers, delay_levels=delay_levels, queues=queues, **settings
        )
        self._make_sender()  # refuses bad arguments now
        self.topic = topic_of_queue(PREFIX, plain_text("queue", queue))
        self._visibility_ms = positive_milliseconds("visibility_timeout", visibility_timeout)
        self._make_consumer = partial(
            Consumer,
            name_servers,
            group=self.topic,
            topics=self.topic,
            start="first",
            consume_timeout=NO_TIMEOUT,
            **settings,
        )
        self._sender: TaskSender | None = None
        self._reader: TaskReader | None = None

    async def startup(self) -> None:
        """Connect once, and make the topic if it is not there. Raises: ClientError."""
        await super().startup()
        if self._sender is None:  # a receiver starts a broker that may be started
            self._sender = await self._make_sender().__aenter__()
        await self._sender.declare(self.topic)

    async def shutdown(self) -> None:
        """Leave the group, and close the connections."""
        reader, self._reader = self._reader, None
        sender, self._sender = self._sender, None
        for opened in filter(None, (reader, sender)):
            await opened.close()
        await super().shutdown()

    async def kick(self, message: BrokerMessage) -> None:
        """Return when a broker has stored a task.

        Raises: ClientError; InvalidArgument for a label that cannot be kept.
        """
        if "priority" in message.labels:
            remedy = "Use a broker with another queue for what is urgent"
            raise InvalidArgument("RocketMQ has no priorities, and a label gives one", remedy)
        if self._sender is None:
            raise InvalidArgument("this broker is not started", "Call `await broker.startup()`")
        due_ms = _due_ms(message.labels.get("delay"))
        await self._sender.put(self.topic, message.message, due_ms=due_ms, key=message.task_id)

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Yield tasks for the functions that are known here. Raises: ClientError."""
        if self._sender is None:
            raise InvalidArgument("this broker is not started", "Call `await broker.startup()`")
        self._reader = reader = TaskReader(
            self._make_consumer(),
            self._sender,
            self.topic,
            accepts=self._is_task,
            visibility_ms=self._visibility_ms,
        )
        await reader.start()
        while reader.is_open:
            if (message := await reader.wait_next(WAIT_SECONDS)) is not None:
                yield AckableMessage(data=message.body, ack=partial(reader.ack, message))

    def _is_task(self, message: ConsumerMessage) -> bool:
        """Return True for a task. Raises: NoTask."""
        try:
            found = self.formatter.loads(message.body)
            found.parse_labels()
        except Exception as error:  # whatever the formatter and the serializer raise
            raise NoTask(f"no task of taskiq: {type(error).__name__}: {error}") from error
        if self.find_task(found.task_name) is None:
            raise NoTask(f"task {found.task_name!r} is not known here")
        return True


def _due_ms(delay: object) -> int:
    """Return when a task with this delay is due, 0 without one. Raises: InvalidArgument."""
    if delay is None:
        return 0
    try:
        seconds = float(delay) if isinstance(delay, int | float | str) else math.nan
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InvalidArgument(f"the label delay={delay!r} is no delay", "Give seconds")
    return wall_ms() + math.ceil(seconds * 1000) if seconds else 0
