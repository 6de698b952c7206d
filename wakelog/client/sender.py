"""The sender: chooses a queue for each request, and sends again if that may help.

After a failed attempt the sender asks for the route again. A request that may go to any queue then
goes to another broker, at once if that one has not failed yet. Else the sender pauses before
(`attempts`). A request of a sharding key stays with its queue while replicas of that broker are in
the route: one of them will lead. A route that cannot be found counts as a failed attempt too,
because the broker may be restarting. An error that no further attempt can change ends the send.

Invariants: `send` returns only after a broker acknowledged every message; the requests of one list
are sent one after the other.

Source: org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl#sendDefaultImpl (4.9.3).
"""

import asyncio
import time
from collections.abc import Sequence, Set
from typing import Final

from wakelog.client.attempts import Attempts, NowSeconds, Pause
from wakelog.client.errors import (
    ClientError,
    InvalidArgument,
    NotAcknowledged,
    not_acknowledged,
)
from wakelog.client.messages import EncodedMessage, SendRequest
from wakelog.client.options import ClientOptions
from wakelog.client.queue_choice import QueueChoice
from wakelog.client.route import Connections, QueueAt, Routes, no_master
from wakelog.client.send_command import Stored, read_response, send_command, unreachable
from wakelog.network.errors import RemotingError
from wakelog.protocol.codes import ResponseCode

IN_FLIGHT_MAX: Final = 8
"""Requests of one sender under way: enough to hide the round trip."""

# Another attempt or another broker may succeed after these.
_RETRIABLE: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION, ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)  # fmt: skip


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

        first_queue: of each topic, by its index; None for a random one.
        """
        self._connections = connections
        self._options = options
        self._pause, self._now_seconds = pause, now_seconds
        self.routes = routes or Routes(connections, options)
        self._queues = QueueChoice(self.routes, first_queue)
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
        try:
            queue = await self._choose(request.messages[0])
            return await self._attempt(request, queue)
        except NotAcknowledged:  # stored: another attempt would store it twice
            raise
        except InvalidArgument:  # nothing was sent
            raise
        except ClientError as error:
            return await self.send_again(request, queue, error)

    async def send_again(
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
        cause = f"no broker acknowledged {what} for topic {topic}: {failed.cause}"
        raise not_acknowledged(cause, failed) from failed

    async def send_oneway(self, request: SendRequest) -> None:
        """Send one request that gets no answer. Raises: ClientError without a connection."""
        message = request.first
        queue = await self._choose(message)
        command = send_command(request, queue, self._options.group)
        try:
            await self._connections.invoke_oneway(queue.address, command)
        except RemotingError as error:
            raise unreachable(queue, error) from error

    async def _attempt(self, request: SendRequest, queue: QueueAt) -> Stored:
        """Send once. Raises: ClientError, with the code of a broker that refused."""
        command = send_command(request, queue, self._options.group)
        try:
            response = await self._connections.invoke(
                queue.address, command, timeout_ms=self._options.timeout_ms
            )
        except RemotingError as error:
            raise unreachable(queue, error) from error
        return read_response(queue, response, self.routes)

    async def _choose(self, message: EncodedMessage) -> QueueAt:
        """Return the queue of a first attempt; one that is named may be newer than the route.

        Raises: InvalidArgument if the newest route lacks it; ClientError without a route.
        """
        topic = message.topic
        known = self.routes.known_writable(topic)
        try:
            return self._queues.choose(message, known or await self.routes.writable(topic))
        except InvalidArgument:
            if not known:
                raise
        return self._queues.choose(message, await self.routes.writable(topic, refresh=True))

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
            return self._queues.choose(message, queues, (tried, {failed.broker}))
        except InvalidArgument as error:
            if not failed.passes:
                raise
            # Its broker has left the route, as one does that starts again.
            raise ClientError(
                error.cause, error.remedy, broker=failed.broker, passes=True
            ) from error


def _may_succeed(failed: ClientError) -> bool:
    """Return whether another attempt, or another broker, may succeed."""
    if failed.refuses_account or isinstance(failed, InvalidArgument):
        return False
    return failed.code is None or failed.code in _RETRIABLE
