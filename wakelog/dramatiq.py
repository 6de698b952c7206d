"""A broker of dramatiq over RocketMQ, which the extra `dramatiq` installs.

    dramatiq.set_broker(RocketMQBroker("127.0.0.1:9876"))

A queue is a topic, and the workers are its group. A delayed message is given to a worker when it is
due, and waits at the broker. `nack` makes a dead letter, as does what is no message of dramatiq.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final, Unpack

import dramatiq
from dramatiq.errors import BrokerConnectionError, DecodeError, QueueJoinTimeout, QueueNotFound

from wakelog.client import ClientError, Consumer, ConsumerMessage, InvalidArgument
from wakelog.client.clocks import wall_ms
from wakelog.client.options import Settings, Target
from wakelog.client.plain import positive_milliseconds
from wakelog.protocol.delay_levels import DEFAULT_DELAY_LEVELS
from wakelog.tasks.blocking import BlockingReader, BlockingSender
from wakelog.tasks.names import topic_of_queue
from wakelog.tasks.reader import NO_TIMEOUT, VISIBILITY_TIMEOUT, NoTask, TaskReader
from wakelog.tasks.sender import QUEUES, TaskSender

PREFIX: Final = "dramatiq-"
JOIN_POLL_SECONDS: Final = 0.1


@contextmanager
def _as_dramatiq_errors() -> Iterator[None]:
    """Raise what may pass as what dramatiq tries again."""
    try:
        yield
    except InvalidArgument:
        raise
    except ClientError as error:
        raise BrokerConnectionError(str(error)) from error


class RocketMQBroker(dramatiq.Broker):
    """See the module."""

    def __init__(
        self,
        name_servers: Target,
        *,
        queues: int = QUEUES,
        visibility_timeout: timedelta = VISIBILITY_TIMEOUT,
        delay_levels: str = DEFAULT_DELAY_LEVELS,
        middleware: list[dramatiq.Middleware] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Make no connection yet.

        name_servers: `HOST:PORT`, several with semicolons between.
        queues: of a topic at each broker, if that is made here: the most processes of workers.
        visibility_timeout: when a message that is not acknowledged is given again.
        delay_levels: `messageDelayLevel` of the brokers. settings: as of a `Producer`.
        Raises: InvalidArgument.
        """
        super().__init__(middleware)
        self._make_sender = partial(
            TaskSender, name_servers, delay_levels=delay_levels, queues=queues, **settings
        )
        self._make_sender()  # refuses bad arguments now
        self.visibility_ms = positive_milliseconds("visibility_timeout", visibility_timeout)
        self.make_consumer = partial(
            Consumer, name_servers, start="first", consume_timeout=NO_TIMEOUT, **settings
        )
        self._opening = threading.Lock()
        # With the id of the process that has opened it: a fork opens one of its own.
        self._sender: tuple[int, BlockingSender] | None = None

    @property
    def sender(self) -> BlockingSender:
        """The open sender of this process. Raises: ClientError."""
        with self._opening:
            if self._sender is None or self._sender[0] != os.getpid():
                self._sender = os.getpid(), BlockingSender(self._make_sender()).__enter__()
            return self._sender[1]

    def close(self) -> None:
        """Close the connections."""
        with self._opening:
            sender, self._sender = self._sender, None
        if sender is not None:
            sender[1].__exit__(None, None, None)

    def declare_queue(self, queue_name: str) -> None:
        """Have a queue; its topic is made when it is used first."""
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues[queue_name] = topic_of_queue(PREFIX, queue_name)
            self.emit_after("declare_queue", queue_name)

    def topic(self, queue_name: str) -> str:
        """Return the topic of a queue, made if need be. Raises as `enqueue` does."""
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)
        found: str = self.queues[queue_name]
        with _as_dramatiq_errors():
            self.sender.declare(found)
        return found

    def enqueue(
        self, message: dramatiq.Message[Any], *, delay: int | None = None
    ) -> dramatiq.Message[Any]:
        """Return when it is stored. Raises: QueueNotFound; BrokerConnectionError; ClientError."""
        topic = self.topic(message.queue_name)
        due_ms = wall_ms() + int(delay) if delay else 0
        self.emit_before("enqueue", message, delay)
        with _as_dramatiq_errors():
            self.sender.put(topic, message.encode(), due_ms=due_ms, key=message.message_id)
        self.emit_after("enqueue", message, delay)
        return message

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 30000) -> "_Consumer":
        """Join the group of a queue. Raises: QueueNotFound; BrokerConnectionError."""
        return _Consumer(self, self.topic(queue_name), prefetch, timeout / 1000)

    def flush(self, queue_name: str) -> None:
        """Skip the messages of a queue; delayed ones stay."""
        topic = self.topic(queue_name)
        with _as_dramatiq_errors():
            self.sender.purge(topic, topic)

    def flush_all(self) -> None:
        """Skip the messages of all queues."""
        for queue_name in list(self.queues):
            self.flush(queue_name)

    def join(self, queue_name: str, *, timeout: int | None = None) -> None:
        """Wait until every message of a queue is acknowledged; delayed ones do not count."""
        topic = self.topic(queue_name)
        deadline = None if timeout is None else time.monotonic() + timeout / 1000
        with _as_dramatiq_errors():
            while self.sender.size(topic, topic):
                if deadline is not None and time.monotonic() >= deadline:
                    raise QueueJoinTimeout(queue_name)
                time.sleep(JOIN_POLL_SECONDS)


class _Proxy(dramatiq.MessageProxy):
    def __init__(self, taken: ConsumerMessage) -> None:
        super().__init__(dramatiq.Message.decode(taken.body))
        self.taken = taken


class _Consumer(dramatiq.Consumer):
    """The messages of one queue, at most `prefetch` in hand; at its end others get them."""

    def __init__(self, broker: RocketMQBroker, topic: str, prefetch: int, seconds: float) -> None:
        self._prefetch, self._wait_seconds = prefetch, seconds
        reader = TaskReader(
            broker.make_consumer(group=topic, topics=topic),
            broker.sender.twin,
            topic,
            accepts=_is_message,
            visibility_ms=broker.visibility_ms,
        )
        with _as_dramatiq_errors():
            self._reader = BlockingReader(reader).__enter__()

    def __next__(self) -> _Proxy | None:
        if len(self._reader.twin.in_hand) >= self._prefetch:
            time.sleep(min(self._wait_seconds, JOIN_POLL_SECONDS))
            return None
        with _as_dramatiq_errors():
            taken = self._reader.wait_next(self._wait_seconds)
        return None if taken is None else _Proxy(taken)

    @_as_dramatiq_errors()
    def ack(self, message: Any) -> None:
        self._reader.ack(message.taken)

    @_as_dramatiq_errors()
    def nack(self, message: Any) -> None:
        self._reader.refuse(message.taken, "rejected by the worker")

    @_as_dramatiq_errors()
    def close(self) -> None:
        self._reader.__exit__(None, None, None)


def _is_message(message: ConsumerMessage) -> bool:
    """Return True for a message of dramatiq. Raises: NoTask."""
    try:
        dramatiq.Message.decode(message.body)
    except DecodeError as error:
        reason: BaseException | None = error
        while isinstance(reason, DecodeError):  # its text is the whole body
            reason = reason.error
        raise NoTask(f"no message of dramatiq: {type(reason).__name__}: {reason}") from error
    return True
