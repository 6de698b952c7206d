"""Requests to brokers: where to, again where it helps, and what to say where it does not.

    name server   GET_ROUTEINFO_BY_TOPIC           the topic's queues; of a topic that is not there
                                                   yet, those of TBW102, whose brokers create it
    broker        SEND_MESSAGE, SEND_BATCH_MESSAGE stored once the answer says so

A request that failed is sent again, up to `retryTimesWhenSendFailed` times, after the route was
asked for anew; to another queue if it may go to any. What no further attempt can help is said at
once.

Invariants: `send` returns only if every message was acknowledged as stored; requests of one list
are sent one after the other.

Source: org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl#sendDefaultImpl,
org.apache.rocketmq.client.impl.factory.MQClientInstance#topicRouteData2TopicPublishInfo (4.9.3).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from wakelog.broker.names import AUTO_CREATE_TOPIC_KEY_TOPIC
from wakelog.network.errors import RemotingError
from wakelog.protocol.bodies import TopicRouteData
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.headers.send import SendMessageRequestHeaderV2
from wakelog.protocol.java import string_hash
from wakelog.spark.remote.routes import Client, WireFailed, find_route, said, tls_remedy
from wakelog.spark.sink.options import WriteOptions
from wakelog.spark.sink.packing import Request

NEW_TOPIC_QUEUES: Final = 4
"""defaultTopicQueueNums of 4.9.3's producer."""
IN_FLIGHT_MAX: Final = 8
"""Requests of one task under way: enough to hide the way there and back."""
PAUSE_SECONDS: Final = 0.1
"""Before the second attempt, doubled before each further one: a broker that restarts takes some."""
PAUSE_SECONDS_MAX: Final = 5.0

_WRITABLE: Final = 2
# Another attempt, or another broker, may succeed where these were the answer.
_RETRIABLE: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION, ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)  # fmt: skip
_LOOK: Final = "Look at that broker's log"
_REMEDIES: Final = {
    int(ResponseCode.MESSAGE_ILLEGAL): (
        "A broker's maxMessageSize, 4 MiB by default, is of a body with its topic, its properties "
        "and what is stored beside them"
    ),
}


class WriteFailed(WireFailed):
    """Messages were not stored, or nobody knows; with the cause and what to do about it."""


class Queue(NamedTuple):
    """A queue that can be written to."""

    broker: str
    address: str
    queue_id: int


class Producer:
    """Sends for one task; one loop, one thread."""

    def __init__(
        self,
        client: Client,
        options: WriteOptions,
        *,
        first_queue: int = 0,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Ask nobody yet. first_queue: with which of a topic's queues to begin."""
        self._client = client
        self._options = options
        self._pause = pause
        self._next_queue = first_queue
        self._routes: dict[str, list[Queue]] = {}
        self._in_flight = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def send(self, lanes: Sequence[Sequence[Request]]) -> None:
        """Send all requests, those of one lane in order. Raises: WriteFailed."""
        try:
            async with asyncio.TaskGroup() as group:
                for requests in lanes:
                    group.create_task(self._send_lane(requests))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _send_lane(self, requests: Sequence[Request]) -> None:
        for request in requests:
            async with self._in_flight:
                await self._send(request)

    async def _send(self, request: Request) -> None:
        topic, reason, remedy = request.lane.topic, "", _LOOK
        for attempt in range(self._options.retries_max + 1):
            if attempt:
                await self._pause(min(PAUSE_SECONDS * 2 ** (attempt - 1), PAUSE_SECONDS_MAX))
                self._routes.pop(topic, None)
            queue = self._choose(request, await self._queues(topic))
            try:
                answer = await self._invoke(queue.address, *_command(request, queue, self._options))
            except RemotingError as error:
                reason = f"{queue.broker} at {error.address}: {error.reason}"
                remedy = tls_remedy(error) or _LOOK
                continue
            if answer.code == ResponseCode.SUCCESS:
                return
            reason = f"{queue.broker} at {queue.address} answered {said(answer)}"
            remedy = _REMEDIES.get(answer.code, _LOOK)
            if answer.code not in _RETRIABLE:
                break
        rows = f"{len(request.messages)} messages for topic {topic} were not acknowledged"
        raise WriteFailed(
            f"{rows}: {reason}",
            f"{remedy}; what was acknowledged before is stored, and gets the same unique keys if "
            "it is written again",
        )

    def _choose(self, request: Request, queues: Sequence[Queue]) -> Queue:
        lane = request.lane
        if lane.queue is not None:
            broker, queue_id = lane.queue
            for queue in queues:
                if queue.queue_id == queue_id and broker in ("", queue.broker):
                    return queue
            raise WriteFailed(
                f"topic {lane.topic} has no queue {queue_id} to write to"
                + (f" at {broker}" if broker else ""),
                "Leave the column queueId out, or give the topic more queues",
            )
        if lane.sharding_key:
            return queues[abs(string_hash(lane.sharding_key)) % len(queues)]
        self._next_queue += 1
        return queues[(self._next_queue - 1) % len(queues)]

    async def _queues(self, topic: str) -> list[Queue]:
        """Return the writable queues of a topic. Raises: WriteFailed."""
        if topic not in self._routes:
            route = await self._route(topic)
            found = [] if route is None else _writable(route)
            if route is None and (template := await self._route(AUTO_CREATE_TOPIC_KEY_TOPIC)):
                found = _writable(template, queues_max=NEW_TOPIC_QUEUES)
            if not found:
                raise WriteFailed(
                    f"no broker takes messages for topic {topic}",
                    "Create the topic (mqadmin updateTopic), or wait until its broker runs and is "
                    "registered with the name server",
                )
            self._routes[topic] = found
        return self._routes[topic]

    async def _route(self, topic: str) -> TopicRouteData | None:
        """Ask the name servers in turn; None if the topic is not there. Raises: WriteFailed."""
        servers, timeout_ms = self._options.name_servers, self._options.timeout_ms
        try:
            return await find_route(self._client, servers, topic, timeout_ms=timeout_ms)
        except WireFailed as error:
            raise WriteFailed(error.cause, error.remedy) from error

    async def _invoke(
        self,
        address: str,
        code: RequestCode,
        header: SendMessageRequestHeaderV2,
        body: bytes = b"",
    ) -> RemotingCommand:
        command = RemotingCommand(int(code), ext_fields=to_ext_fields(header), body=body)
        return await self._client.invoke(address, command, timeout_ms=self._options.timeout_ms)


def _command(
    request: Request, queue: Queue, options: WriteOptions
) -> tuple[RequestCode, SendMessageRequestHeaderV2, bytes]:
    header = SendMessageRequestHeaderV2(
        producer_group=options.group,
        topic=request.lane.topic,
        default_topic=AUTO_CREATE_TOPIC_KEY_TOPIC,
        default_topic_queue_nums=NEW_TOPIC_QUEUES,
        queue_id=queue.queue_id,
        sys_flag=0,
        born_timestamp=time.time_ns() // 1_000_000,
        flag=0 if request.is_batch else request.messages[0].flag,
        properties=request.properties,
        reconsume_times=0,
        batch=request.is_batch,
    )
    code = RequestCode.SEND_BATCH_MESSAGE if request.is_batch else RequestCode.SEND_MESSAGE_V2
    return code, header, request.body


def _writable(route: TopicRouteData, *, queues_max: int | None = None) -> list[Queue]:
    """Return the queues of masters that may be written to, by broker name and queue id."""
    masters = {
        broker.broker_name: broker.broker_addrs[0]
        for broker in route.broker_datas
        if 0 in broker.broker_addrs
    }
    found = []
    for data in sorted(route.queue_datas, key=lambda data: data.broker_name):
        if data.perm & _WRITABLE and data.broker_name in masters:
            count = data.write_queue_nums
            for queue_id in range(count if queues_max is None else min(count, queues_max)):
                found.append(Queue(data.broker_name, masters[data.broker_name], queue_id))
    return found
