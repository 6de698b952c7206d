"""Typed calls to brokers: pulls, offsets of queues and groups, searches by time.

A call that fails is repeated, up to `retries_max` times with `pause_ms` in between. Each repetition
uses the address that the name servers have by then.

Invariants: at most `IN_FLIGHT_MAX` calls are under way.

Source: org.apache.rocketmq.client.impl.MQAdminImpl, org.apache.rocketmq.client.impl.consumer.
PullAPIWrapper#pullKernelImpl, org.apache.rocketmq.common.sysflag.PullSysFlag (4.9.3).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

import msgspec

from wakelog.client.errors import OTHER_GROUP, ClientError, describe, refused, unanswered
from wakelog.client.options import ClientOptions
from wakelog.client.route import Connections, QueueAt, Routes
from wakelog.network.client import make_client
from wakelog.network.errors import RemotingError
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
from wakelog.protocol.record import decode_record
from wakelog.protocol.sys_flag import PULL_SUBSCRIPTION, PULL_SUSPEND

IN_FLIGHT_MAX: Final = 32
"""Calls under way at once: to plan a read of a cluster takes several for each queue."""

_RETRIABLE: Final = frozenset(
    {ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE}
)
_PULL_CODES: Final = frozenset(
    {
        ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED, ResponseCode.TOPIC_NOT_EXIST,
    }
)  # fmt: skip
_OTHER_SUBSCRIPTION: Final = (
    "Another member of the group subscribes to other topics or tags: give one of them another group"
)
_REMEDIES: Final = {
    int(ResponseCode.SUBSCRIPTION_NOT_EXIST): _OTHER_SUBSCRIPTION,
    int(ResponseCode.SUBSCRIPTION_NOT_LATEST): _OTHER_SUBSCRIPTION,
    int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST): (
        f"Create the group (mqadmin updateSubGroup), or {OTHER_GROUP}"
    ),
    int(ResponseCode.NO_PERMISSION): "Give the topic and the group read permission",
}


class Pulled(NamedTuple):
    """The response to a pull. `remark` is the name of a GetMessageStatus of 4.9.3.

    body: the stored records, one after another; empty unless `code` is SUCCESS.
    """

    code: int
    remark: str
    body: bytes | memoryview
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int = 0


@asynccontextmanager
async def open_calls(options: ClientOptions) -> "AsyncIterator[BrokerCalls]":
    """Yield a BrokerCalls, whose connections are closed at the end of the block."""
    connections = make_client(options.credentials, options.tls, dial=options.dial)
    try:
        yield BrokerCalls(connections, options)
    finally:
        await connections.close()


class BrokerCalls:
    """See the module. One loop, one thread."""

    def __init__(
        self,
        connections: Connections,
        options: ClientOptions,
        *,
        routes: Routes | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Send no request yet. routes: those of a client that has some."""
        self.routes = routes or Routes(connections, options)
        self._connections = connections
        self._options = options
        self._pause = pause
        self._in_flight = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def min_offset(self, queue: QueueAt) -> int:
        """Return the first offset of a queue, 0 if it never had any. Raises: ClientError."""
        return await self._offset(queue, RequestCode.GET_MIN_OFFSET)

    async def max_offset(self, queue: QueueAt) -> int:
        """Return the offset after the last message of a queue. Raises: ClientError."""
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET)

    async def _offset(self, queue: QueueAt, code: RequestCode) -> int:
        header = QueueRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        response = await self._call(queue, code, header)
        return max(read_header(OffsetResponseHeader, response.ext_fields).offset, 0)

    async def range_of(self, queue: QueueAt) -> tuple[int, int]:
        """Return [begin, end) of the messages that a queue has. Raises: ClientError."""
        end, begin = await asyncio.gather(self.max_offset(queue), self.min_offset(queue))
        return min(begin, end), end

    async def first_at(
        self, queue: QueueAt, timestamp_ms: int, within: tuple[int, int] | None = None
    ) -> int:
        """Return the offset of the first message stored at a time or later; else the queue's end.

        within: the queue's range, where it is known. The search of a broker returns a message near
        that time, and any one of the messages of one millisecond. From there this searches for the
        first, in steps that grow. Raises: ClientError.
        """
        low, high = await self.range_of(queue) if within is None else within
        if low == high:
            return high
        probe, step = await self._search(queue, timestamp_ms), 1
        while low < high:
            if not low <= probe < high:
                probe = probe if step == 1 else (low + high) // 2
                probe = min(max(probe, low), high - 1)
            if await self._stored_ms(queue, probe) >= timestamp_ms:
                high, probe = probe, probe - step
            else:
                low, probe = probe + 1, probe + step
            step *= 2
        return low

    async def _stored_ms(self, queue: QueueAt, queue_offset: int) -> int:
        """Return when a message was stored; -1 for a message that is gone."""
        found = await self.pull(queue, queue_offset, 1)
        return decode_record(found.body).store_timestamp_ms if found.body else -1

    async def _search(self, queue: QueueAt, timestamp_ms: int) -> int:
        """Return the offset of a message stored at about this time, as 4.9.3 finds it."""
        header = SearchOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms
        )
        response = await self._call(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return read_header(OffsetResponseHeader, response.ext_fields).offset

    async def committed_offset(self, queue: QueueAt, group: str) -> int | None:
        """Return the offset that a group committed, None if the broker has none.

        4.9.3 answers 0 for an unknown group while the queue still has all its messages.
        Raises: ClientError.
        """
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id
        )
        code = RequestCode.QUERY_CONSUMER_OFFSET
        response = await self._call(queue, code, header, ResponseCode.QUERY_NOT_FOUND)
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        found = read_header(OffsetResponseHeader, response.ext_fields).offset
        return found if found >= 0 else None

    async def commit_offset(self, queue: QueueAt, group: str, queue_offset: int) -> None:
        """Commit the offset of a group. Raises: ClientError."""
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=queue_offset,
        )
        await self._call(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def pull(
        self,
        queue: QueueAt,
        queue_offset: int,
        messages_max: int,
        expression: str = "*",
        *,
        hold_ms: int = 0,
        expression_type: str = "TAG",
    ) -> Pulled:
        """Pull once.

        expression: tags joined by `||`, or of another type, which the broker must allow.
        hold_ms: how long the broker may wait for a message.
        Raises: ClientError.
        """
        header = PullMessageRequestHeader(
            consumer_group=self._options.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=queue_offset,
            max_msg_nums=messages_max,
            sys_flag=PULL_SUBSCRIPTION | (PULL_SUSPEND if hold_ms else 0),
            commit_offset=0,
            suspend_timeout_millis=hold_ms,
            subscription=expression,
            expression_type=expression_type,
        )
        response = await self._call_with_retries(queue, RequestCode.PULL_MESSAGE, header)
        return read_pulled(queue, queue_offset, response)

    async def _call(
        self,
        queue: QueueAt,
        code: RequestCode,
        header: msgspec.Struct,
        allowed: ResponseCode = ResponseCode.SUCCESS,
    ) -> RemotingCommand:
        """Return a response with SUCCESS or the allowed code. Raises: ClientError."""
        response = await self._call_with_retries(queue, code, header)
        if response.code not in (ResponseCode.SUCCESS, allowed):
            cause = (
                f"{queue.broker} answered {code.name} for queue {queue.queue_id} of topic "
                f"{queue.topic} with {describe(response)}"
            )
            raise refused(queue.broker, cause, response, _REMEDIES)
        return response

    async def _call_with_retries(
        self, queue: QueueAt, code: RequestCode, header: msgspec.Struct
    ) -> RemotingCommand:
        fields = to_ext_fields(header)
        response = failed = None
        for attempt in range(self._options.retries_max + 1):
            if attempt:
                await self._pause(self._options.pause_ms / 1000)
                with suppress(ClientError):  # without an answer brokers stay where they were
                    await self.routes.readable(queue.topic)
            address = self._address(queue)
            command = RemotingCommand(int(code), ext_fields=fields)
            try:
                async with self._in_flight:
                    response = await self._connections.invoke(
                        address, command, timeout_ms=self._options.timeout_ms
                    )
            except RemotingError as error:
                response, failed = None, error
                continue
            if response.code not in _RETRIABLE:
                return response
        if response is not None:
            return response
        assert failed is not None
        what = f"{queue.broker} does not answer {code.name}: {failed.address}"
        raise unanswered(what, failed, broker=queue.broker) from failed

    def _address(self, queue: QueueAt) -> str:
        """Return where the broker of a queue is by the newest route."""
        by_id = self.routes.brokers.get(queue.broker)
        return by_id[min(by_id)] if by_id else queue.address


def read_pulled(queue: QueueAt, queue_offset: int, response: RemotingCommand) -> Pulled:
    """Read the response to a pull. Raises: ClientError for one that refuses."""
    if response.code not in _PULL_CODES:
        cause = (
            f"queue {queue.queue_id} of topic {queue.topic} cannot be pulled: {queue.broker} "
            f"answered {describe(response)}"
        )
        raise refused(queue.broker, cause, response, _REMEDIES)
    if response.code == ResponseCode.TOPIC_NOT_EXIST:
        return Pulled(response.code, response.remark or "", b"", queue_offset, 0, 0)
    found = read_header(PullMessageResponseHeader, response.ext_fields)
    return Pulled(
        response.code,
        response.remark or "",
        response.body if response.code == ResponseCode.SUCCESS else b"",
        found.next_begin_offset,
        found.min_offset,
        found.max_offset,
        found.suggest_which_broker_id,
    )
