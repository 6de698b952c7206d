"""Codes 14, 15, 29, 30, 31 and 32: offsets that groups commit, and the ends and times of a queue.

An unknown topic or queue is empty, never an error (fact 28). What only the disk can answer runs in
the pool.

Source: org.apache.rocketmq.broker.processor.ConsumerManageProcessor and
AdminBrokerProcessor.searchOffsetByTimestamp, getMaxOffset, getMinOffset, getEarliestMsgStoretime
(4.9.3).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from wakelog.broker.decision import Outcome, RunInPool
from wakelog.broker.names import check_any_topic, check_group
from wakelog.broker.state import BrokerState
from wakelog.network.request import Request
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers.offsets import (
    QueryConsumerOffsetRequestHeader,
    QueueRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from wakelog.storage.message_store import MessageStore


def update_consumer_offset(
    state: BrokerState, request: Request[UpdateConsumerOffsetRequestHeader]
) -> Outcome:
    """Commit the offset of one queue, a smaller one too (code 15, fact 38)."""
    header = request.header
    check_any_topic(header.topic)
    check_group(header.consumer_group)
    if header.queue_id < 0:
        remark = f"queueId[{header.queue_id}] is illegal"
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)
    state.offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    return request.success()


def query_consumer_offset(
    state: BrokerState, request: Request[QueryConsumerOffsetRequestHeader]
) -> Outcome:
    """Return the committed offset of one queue (code 14).

    A group without one starts at 0 if the queue has lost nothing and begins near the log's end.
    Else it gets code 22 and starts where its own policy says (fact 39).
    """
    header = request.header
    queue_offset = state.offsets.query(header.consumer_group, header.topic, header.queue_id)
    if queue_offset >= 0:
        return request.success({"offset": str(queue_offset)})

    def finish(starts_at_zero: bool, _now_ms: int) -> Outcome:
        if starts_at_zero:
            return request.success({"offset": "0"})
        remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        return request.refusal(ResponseCode.QUERY_NOT_FOUND, remark)

    return RunInPool(partial(_starts_at_zero, state.store, header.topic, header.queue_id), finish)


def search_offset_by_timestamp(
    state: BrokerState, request: Request[SearchOffsetRequestHeader]
) -> Outcome:
    """Return the queue offset nearest to a time (code 29)."""
    header = request.header
    check_any_topic(header.topic)
    work = partial(state.store.offset_by_time, header.topic, header.queue_id, header.timestamp)
    return RunInPool(work, partial(_finish_number, request, "offset"))


def get_max_offset(state: BrokerState, request: Request[QueueRequestHeader]) -> Outcome:
    """Return the end of a queue (code 30)."""
    store = state.store
    return _queue_number(request, "offset", store.max_queue_offset, store.max_queue_offset_nowait)


def get_min_offset(state: BrokerState, request: Request[QueueRequestHeader]) -> Outcome:
    """Return the begin of a queue (code 31)."""
    store = state.store
    return _queue_number(request, "offset", store.min_queue_offset, store.min_queue_offset_nowait)


def get_earliest_store_time(state: BrokerState, request: Request[QueueRequestHeader]) -> Outcome:
    """Return the store time of a queue's first message (code 32), -1 if it has none."""
    return _queue_number(request, "timestamp", state.store.earliest_store_time)


def _queue_number(
    request: Request[QueueRequestHeader],
    name: str,
    read: Callable[[str, int], int],
    read_nowait: Callable[[str, int], int | None] | None = None,
) -> Outcome:
    topic, queue_id = request.header.topic, request.header.queue_id
    check_any_topic(topic)
    number = None if read_nowait is None else read_nowait(topic, queue_id)
    if number is None:
        return RunInPool(partial(read, topic, queue_id), partial(_finish_number, request, name))
    return request.success({name: str(number)})


def _finish_number(request: Request[Any], name: str, number: int, _now_ms: int) -> Outcome:
    return request.success({name: str(number)})


def _starts_at_zero(store: MessageStore, topic: str, queue_id: int) -> bool:
    return store.min_queue_offset(topic, queue_id) <= 0 and store.in_memory_at(topic, queue_id, 0)
