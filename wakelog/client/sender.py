"""The sender: chooses a queue for each request, and sends again if that may help.

After a failed attempt the sender asks for the route again. A request that may go to any queue then
goes to another broker, at once if that one has not failed yet. Else the sender pauses before
(`attempts`). A request of a sharding key stays with its queue while replicas of that broker are in
the route: one of them will lead. A route that cannot be found counts as a failed attempt too,
because the broker may be restarting. An error that no further attempt can change ends the send.

Invariants: `send` returns only after a broker acknowledged every message; the requests of one list
are sent one after the other.

Source: org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl#sendDefaultImpl,
org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash (4.9.3).
"""

import asyncio
import random
import time
from collections.abc import Sequence, Set
from functools import lru_cache
from typing import Final, NamedTuple

from wakelog.client.attempts import Attempts, NowSeconds, Pause
from wakelog.client.errors import (
    ACCOUNT_REMEDY,
    NO_QUEUE,
    ClientError,
    InvalidArgument,
    NotAcknowledged,
    describe,
    refused,
    unanswered,
)
from wakelog.client.messages import EncodedMessage, SendRequest
from wakelog.client.options import ClientOptions
from wakelog.client.route import NEW_TOPIC_QUEUES, Connections, QueueAt, Routes, no_master
from wakelog.network.errors import RemotingError
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.ext_fields import read_header, to_ext_fields
from wakelog.protocol.headers.send import (
    V2_LETTERS,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from wakelog.protocol.java import string_hash
from wakelog.protocol.names import AUTO_CREATE_TOPIC
from wakelog.protocol.properties import MSG_REGION, TRACE_ON

IN_FLIGHT_MAX: Final = 8
"""Requests of one sender under way: enough to hide the round trip."""
INDEX_MAX: Final = 1 << 20
"""Above the number of queues of a topic: a random index below it may be any of them."""
TOPICS_COUNTED_MAX: Final = 1_024
"""Topics whose next queue is known; the topic counted longest then begins anew."""
DISK_FULL: Final = "the broker's disk is full"
"""What a remark of wakelog ends with; those of 4.9.3 list it among other reasons."""
FIELDS_REMEMBERED_MAX: Final = 1_024
"""Queues whose headers are not put together again."""

_SYS_FLAG, _BORN_TIMESTAMP, _FLAG, _PROPERTIES = (
    V2_LETTERS[name] for name in ("sys_flag", "born_timestamp", "flag", "properties")
)

_SEND, _SEND_BATCH, _SEND_REPLY = (
    int(code)
    for code in (
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    )
)

# Another attempt or another broker may succeed after these.
_RETRIABLE: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION, ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)  # fmt: skip
_REMEDIES: Final = {
    int(ResponseCode.MESSAGE_ILLEGAL): (
        "The broker's maxMessageSize, 4 MiB by default, limits the body together with the topic "
        "and the properties"
    ),
}


class Stored(NamedTuple):
    """Where a broker stored the first message of a request.

    message_id: of the place in the log; those of a batch are joined by commas.
    region: "" if the broker wants no trace.
    """

    queue: QueueAt
    queue_offset: int
    message_id: str
    transaction_id: str = ""
    region: str = ""


class Sender:
    """See the module. One loop, one thread."""

    def __init__(
        self,
        connections: Connections,
        options: ClientOptions,
        *,
        routes: Routes | None = None,
        first_queue: int | None = None,
        pause: Pause = asyncio.sleep,
        now_seconds: NowSeconds = time.monotonic,
    ) -> None:
        """Send nothing yet.

        first_queue: the index of each topic's queue that is used first; None for a random one, so
            that many short-lived producers do not all begin with the same queue.
        """
        self._connections = connections
        self._options = options
        self._pause, self._now_seconds = pause, now_seconds
        self._first_queue = first_queue
        self._next_queues: dict[str, int] = {}  # by topic
        self.routes = routes or Routes(connections, options)
        self._in_flight = asyncio.Semaphore(IN_FLIGHT_MAX)

    def with_group(self, group: str) -> "Sender":
        """Return a sender of the same connections and routes for another producer group."""
        options = self._options._replace(group=group)
        return Sender(
            self._connections,
            options,
            routes=self.routes,
            pause=self._pause,
            now_seconds=self._now_seconds,
        )

    async def send_all(self, lists: Sequence[Sequence[SendRequest]]) -> None:
        """Send all requests, those of one list in order. Raises: NotAcknowledged."""
        try:
            async with asyncio.TaskGroup() as group:
                for requests in lists:
                    group.create_task(self._send_in_order(requests))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _send_in_order(self, requests: Sequence[SendRequest]) -> None:
        for request in requests:
            async with self._in_flight:
                await self.send(request)

    async def send(self, request: SendRequest) -> Stored:
        """Send one request. Raises: NotAcknowledged; InvalidArgument, and nothing was sent."""
        queue: QueueAt | None = None
        message = request.messages[0]
        topic = message.topic
        try:
            queues = self.routes.known_writable(topic) or await self.routes.writable(topic)
            queue = self._choose_queue(message, queues)
            return await self._attempt(request, queue)
        except NotAcknowledged:  # stored: another attempt would store it twice
            raise
        except InvalidArgument:  # nothing was sent
            raise
        except ClientError as error:
            return await self._send_again(request, queue, error)

    async def _send_again(
        self, request: SendRequest, queue: QueueAt | None, failed: ClientError
    ) -> Stored:
        """Send after a first failure, at a queue if one was found. Raises: NotAcknowledged."""
        attempts = Attempts(self._options, pause=self._pause, now_seconds=self._now_seconds)
        topic, tried = request.first.topic, {failed.broker}
        while _may_succeed(failed):
            if not await attempts.again(failed, at_once=self._has_other(request.first, tried)):
                break
            try:
                queues = await self.routes.writable(topic, refresh=True)
                queue = self._choose_again(request, queues, queue, failed, tried)
                tried.add(queue.broker)
                return await self._attempt(request, queue)
            except NotAcknowledged:
                raise
            except ClientError as error:
                failed = error
        count = len(request.messages)
        what = f"{count} messages" if count > 1 else "a message"
        raise NotAcknowledged(
            f"no broker acknowledged {what} for topic {topic}: {failed.cause}",
            failed.remedy,
            broker=failed.broker,
            code=failed.code,
            remark=failed.remark,
        ) from failed

    async def send_oneway(self, request: SendRequest) -> None:
        """Send one request that gets no answer. Raises: ClientError without a connection."""
        message = request.first
        queue = self._choose_queue(message, await self.routes.writable(message.topic))
        command = _send_command(request, queue, self._options.group)
        try:
            await self._connections.invoke_oneway(queue.address, command)
        except RemotingError as error:
            raise _unreachable(queue, error) from error

    async def _attempt(self, request: SendRequest, queue: QueueAt) -> Stored:
        """Send once. Raises: ClientError, with the code of a broker that refused."""
        command = _send_command(request, queue, self._options.group)
        try:
            response = await self._connections.invoke(
                queue.address, command, timeout_ms=self._options.timeout_ms
            )
        except RemotingError as error:
            raise _unreachable(queue, error) from error
        if response.code == ResponseCode.SUCCESS:
            return _read_stored(queue, response)
        cause = f"{queue.broker} at {queue.address} answered {describe(response)}"
        failed = refused(queue.broker, cause, response, _REMEDIES)
        if failed.remark.endswith(DISK_FULL) and not self.routes.has_replicas(queue):
            failed.passes = False  # no other broker will lead that has space
        raise failed

    def _has_other(self, message: EncodedMessage, tried: Set[str]) -> bool:
        """Return whether a message may go to a broker that was not tried, as far as is known."""
        if message.queue is not None or message.sharding_key:
            return False
        return any(each.broker not in tried for each in self.routes.known_writable(message.topic))

    def _choose_again(
        self,
        request: SendRequest,
        queues: Sequence[QueueAt],
        failed_queue: QueueAt | None,
        failed: ClientError,
        tried: Set[str],
    ) -> QueueAt:
        """Return the queue of a further attempt. Raises: ClientError if it has to wait."""
        message = request.first
        if failed_queue is not None and message.sharding_key and message.queue is None:
            for queue in queues:
                if queue.key == failed_queue.key:
                    return queue
            if self.routes.lacks_master(message.topic, failed_queue.broker):
                raise no_master(message.topic, failed_queue.broker)
        try:
            return self._choose_queue(message, queues, (tried, {failed.broker}))
        except InvalidArgument as error:
            if not failed.passes:
                raise
            # Its broker has left the route, as one does that starts again.
            raise ClientError(
                error.cause, error.remedy, broker=failed.broker, passes=True
            ) from error

    def _choose_queue(
        self, message: EncodedMessage, queues: Sequence[QueueAt], avoided: Sequence[Set[str]] = ()
    ) -> QueueAt:
        """Return the queue of the next attempt to send a message, and those with it.

        avoided: brokers that are left out, if any other is left; else the next ones are.

        Raises: InvalidArgument if the named one is gone; ClientError if it has no master now.
        """
        if message.queue is not None:
            broker, queue_id = message.queue
            for queue in queues:
                if queue.queue_id == queue_id and broker in ("", queue.broker):
                    return queue
            if broker and self.routes.lacks_master(message.topic, broker):
                raise no_master(message.topic, broker)
            raise InvalidArgument(
                f"topic {message.topic} has no queue {queue_id} to write to"
                + (f" at {broker}" if broker else ""),
                f"{NO_QUEUE}, or give the topic more queues",
            )
        if message.sharding_key:
            return queues[abs(string_hash(message.sharding_key)) % len(queues)]
        others = queues
        for brokers in avoided:
            left = [queue for queue in queues if queue.broker not in brokers]
            if left:
                others = left
                break
        return others[self._next_index(message.topic) % len(others)]

    def _next_index(self, topic: str) -> int:
        """Return the index of a topic's next queue: other topics do not move it on."""
        index = self._next_queues.get(topic)
        if index is None:
            if len(self._next_queues) >= TOPICS_COUNTED_MAX:
                del self._next_queues[next(iter(self._next_queues))]
            first = self._first_queue
            index = random.SystemRandom().randrange(INDEX_MAX) if first is None else first
        self._next_queues[topic] = index + 1
        return index


def _may_succeed(failed: ClientError) -> bool:
    """Return whether another attempt, or another broker, may succeed."""
    if failed.remedy == ACCOUNT_REMEDY or isinstance(failed, InvalidArgument):
        return False
    return failed.code is None or failed.code in _RETRIABLE


def _unreachable(queue: QueueAt, error: RemotingError) -> ClientError:
    return unanswered(f"{queue.broker} at {error.address}", error, broker=queue.broker)


def _send_command(request: SendRequest, queue: QueueAt, group: str) -> RemotingCommand:
    is_batch = len(request.messages) > 1
    fields = _common_fields(group, queue.topic, queue.queue_id, is_batch).copy()
    fields[_BORN_TIMESTAMP] = str(time.time_ns() // 1_000_000)
    if is_batch:
        fields[_PROPERTIES] = request.properties
        return RemotingCommand(_SEND_BATCH, ext_fields=fields, body=request.body)
    _, body, fields[_PROPERTIES], flag, _, _, _, sys_flag, is_reply, _ = request.messages[0]
    if sys_flag:
        fields[_SYS_FLAG] = str(sys_flag)
    if flag:
        fields[_FLAG] = str(flag)
    return RemotingCommand(_SEND_REPLY if is_reply else _SEND, ext_fields=fields, body=body)


@lru_cache(maxsize=FIELDS_REMEMBERED_MAX)
def _common_fields(group: str, topic: str, queue_id: int, is_batch: bool) -> dict[str, str]:
    """Return the header of requests to one queue; the caller writes what is a message's own."""
    header = SendMessageRequestHeaderV2(
        producer_group=group,
        topic=topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=NEW_TOPIC_QUEUES,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties="",
        reconsume_times=0,
        batch=is_batch,
    )
    return to_ext_fields(header)


def _read_stored(queue: QueueAt, response: RemotingCommand) -> Stored:
    """Read where the message is. Raises: NotAcknowledged if the response does not say that."""
    try:
        found = read_header(SendMessageResponseHeader, response.ext_fields)
    except ProtocolError as error:
        raise NotAcknowledged(
            f"{queue.broker} at {queue.address} acknowledged a message without its place: {error}",
            "Check that a RocketMQ 4.x broker listens there",
            broker=queue.broker,
        ) from error
    fields = response.ext_fields
    return Stored(
        queue if queue.queue_id == found.queue_id else queue._replace(queue_id=found.queue_id),
        found.queue_offset,
        found.msg_id,
        found.transaction_id or "",
        fields.get(MSG_REGION, "") if fields.get(TRACE_ON) != "false" else "",
    )
