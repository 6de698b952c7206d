"""Requests of the remote mode, each with its header, its answer as values, and its errors.

A request to a broker that fails is sent again, up to `fetchOffset.numRetries` times and with
`fetchOffset.retryIntervalMs` between, to the address that the name server has for it by then.

Invariants: no more than `IN_FLIGHT_MAX` calls are under way.

Source: org.apache.rocketmq.client.impl.MQAdminImpl, org.apache.rocketmq.client.impl.consumer.
PullAPIWrapper#pullKernelImpl, org.apache.rocketmq.common.sysflag.PullSysFlag (4.9.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import msgspec

from wakelog.network.client import make_client
from wakelog.network.errors import RemotingError
from wakelog.protocol.bodies import TopicList, TopicRouteData
from wakelog.protocol.body_codec import decode_body
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.ext_fields import read_header, to_ext_fields
from wakelog.protocol.headers.offsets import (
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueueRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from wakelog.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from wakelog.spark.options import RemoteOptions
from wakelog.spark.remote.plan import QueueAt
from wakelog.spark.remote.routes import (
    Client,
    WireFailed,
    ask_name_servers,
    find_route,
    said,
    tls_remedy,
)

IN_FLIGHT_MAX: Final = 32
"""Of one look at a cluster: it asks each queue some questions."""
READABLE: Final = 4
"""The bit of a queue's permissions."""

_WITH_SUBSCRIPTION: Final = 4
_RETRIABLE: Final = frozenset(
    {ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE}
)


class Pulled(NamedTuple):
    """What a broker says to a pull. `remark` is the name of 4.9.3's GetMessageStatus."""

    code: int
    remark: str
    body: bytes
    next_offset: int
    min_offset: int
    max_offset: int


@asynccontextmanager
async def open_calls(options: RemoteOptions) -> AsyncIterator[BrokerCalls]:
    """Yield calls over connections that end with the block."""
    client = make_client(options.credentials, options.tls)
    try:
        yield BrokerCalls(client, options)
    finally:
        await client.close()


class BrokerCalls:
    """See the module. One loop, one thread."""

    def __init__(
        self,
        client: Client,
        options: RemoteOptions,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Ask nobody yet."""
        self._client = client
        self._options = options
        self._pause = pause
        self._in_flight = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._moved: dict[str, str] = {}

    async def topics(self) -> frozenset[str]:
        """Return the names of all topics. Raises: WireFailed."""
        command = RemotingCommand(int(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
        servers, timeout_ms = self._options.name_servers, self._options.timeout_ms
        what = "which topics there are"
        answer = await ask_name_servers(self._client, servers, command, what, timeout_ms=timeout_ms)
        return frozenset(decode_body(TopicList, answer.body).topic_list if answer.body else ())

    async def queues(self, topic: str) -> list[QueueAt] | None:
        """Return the queues of a topic that may be read, None if it is nowhere.

        Raises: WireFailed.
        """
        servers, timeout_ms = self._options.name_servers, self._options.timeout_ms
        route = await find_route(self._client, servers, topic, timeout_ms=timeout_ms)
        return None if route is None else readable_queues(route, topic)

    async def min_offset(self, queue: QueueAt) -> int:
        """Return the first offset that a queue has, 0 if it never had any. Raises: WireFailed."""
        header = QueueRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        answer = await self._sure(queue, RequestCode.GET_MIN_OFFSET, header)
        return max(read_header(OffsetResponseHeader, answer.ext_fields).offset, 0)

    async def max_offset(self, queue: QueueAt) -> int:
        """Return the offset behind a queue's last message. Raises: WireFailed."""
        header = QueueRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        answer = await self._sure(queue, RequestCode.GET_MAX_OFFSET, header)
        return max(read_header(OffsetResponseHeader, answer.ext_fields).offset, 0)

    async def near_time(self, queue: QueueAt, timestamp_ms: int) -> int:
        """Return an offset that was stored about then, as 4.9.3 finds one. Raises: WireFailed."""
        header = SearchOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms
        )
        answer = await self._sure(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return read_header(OffsetResponseHeader, answer.ext_fields).offset

    async def committed(self, queue: QueueAt, group: str) -> int | None:
        """Return how far a group has consumed a queue, None if its broker knows nothing of it.

        Of a queue that has all its messages still, it says 0 then. Raises: WireFailed.
        """
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id
        )
        code = RequestCode.QUERY_CONSUMER_OFFSET
        answer = await self._sure(queue, code, header, ResponseCode.QUERY_NOT_FOUND)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        found = read_header(OffsetResponseHeader, answer.ext_fields).offset
        return found if found >= 0 else None

    async def commit(self, queue: QueueAt, group: str, queue_offset: int) -> None:
        """Say how far a group has read a queue. Raises: WireFailed."""
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=queue_offset,
        )
        await self._sure(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def pull(
        self, queue: QueueAt, queue_offset: int, messages_max: int, expression: str = "*"
    ) -> Pulled:
        """Pull once, without waiting for messages to come. Raises: WireFailed."""
        header = PullMessageRequestHeader(
            consumer_group=self._options.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=queue_offset,
            max_msg_nums=messages_max,
            sys_flag=_WITH_SUBSCRIPTION,
            commit_offset=0,
            subscription=expression,
            expression_type="TAG",
        )
        answer = await self._invoke(queue, RequestCode.PULL_MESSAGE, header)
        if answer.code not in _PULL_CODES:
            raise WireFailed(
                f"queue {queue.queue_id} of topic {queue.topic} cannot be pulled: {queue.broker} "
                f"answered {said(answer)}",
                _REMEDIES.get(answer.code, "Look at that broker's log"),
            )
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return Pulled(answer.code, answer.remark or "", b"", queue_offset, 0, 0)
        found = read_header(PullMessageResponseHeader, answer.ext_fields)
        return Pulled(
            answer.code,
            answer.remark or "",
            bytes(answer.body) if answer.code == ResponseCode.SUCCESS else b"",
            found.next_begin_offset,
            found.min_offset,
            found.max_offset,
        )

    async def _sure(
        self,
        queue: QueueAt,
        code: RequestCode,
        header: msgspec.Struct,
        allowed: ResponseCode = ResponseCode.SUCCESS,
    ) -> RemotingCommand:
        """Ask for what a broker always has an answer to, of success or one more code."""
        answer = await self._invoke(queue, code, header)
        if answer.code not in (ResponseCode.SUCCESS, allowed):
            raise WireFailed(
                f"{queue.broker} answered {code.name} for queue {queue.queue_id} of topic "
                f"{queue.topic} with {said(answer)}",
                "Look at that broker's log",
            )
        return answer

    async def _invoke(
        self, queue: QueueAt, code: RequestCode, header: msgspec.Struct
    ) -> RemotingCommand:
        fields = to_ext_fields(header)
        reason, remedy = "", "Look whether it runs, and whether its address is reached from here"
        answer = None
        for attempt in range(self._options.retries_max + 1):
            if attempt:
                await self._pause(self._options.pause_ms / 1000)
                await self._find_again(queue)
            address = self._moved.get(queue.broker, queue.address)
            command = RemotingCommand(int(code), ext_fields=fields)
            try:
                async with self._in_flight:
                    answer = await self._client.invoke(
                        address, command, timeout_ms=self._options.timeout_ms
                    )
            except RemotingError as error:
                answer, reason = None, f"{error.address}: {error.reason}"
                remedy = tls_remedy(error) or remedy
                continue
            if answer.code not in _RETRIABLE:
                return answer
        if answer is not None:
            return answer
        raise WireFailed(f"{queue.broker} does not answer {code.name}: {reason}", remedy)

    async def _find_again(self, queue: QueueAt) -> None:
        """Look where a broker is by now; where nobody says so it is where it was."""
        try:
            found = await self.queues(queue.topic)
        except WireFailed:
            return
        for each in found or ():
            self._moved[each.broker] = each.address


def readable_queues(route: TopicRouteData, topic: str) -> list[QueueAt]:
    """Return the queues of a route that may be read, at a slave where there is no master."""
    addresses = {
        broker.broker_name: broker.broker_addrs[min(broker.broker_addrs)]
        for broker in route.broker_datas
        if broker.broker_addrs
    }
    return [
        QueueAt(data.broker_name, topic, queue_id, addresses[data.broker_name])
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
        if data.perm & READABLE and data.broker_name in addresses
        for queue_id in range(data.read_queue_nums)
    ]


_PULL_CODES: Final = frozenset(
    {
        ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED, ResponseCode.TOPIC_NOT_EXIST,
    }
)  # fmt: skip
_REMEDIES: Final = {
    int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST): (
        "Create the group (mqadmin updateSubGroup), or name another in the option consumerGroup"
    ),
    int(ResponseCode.NO_PERMISSION): "Give the topic and the group leave to be read",
}
