"""Codes 14, 15, 29 to 32, 43, 45 and 314: offsets of groups and levels, ends and times of a queue.

An unknown topic or queue is empty, never an error (fact 28). What only the disk can answer runs in
the pool.

Source: org.apache.rocketmq.broker.processor.ConsumerManageProcessor and
AdminBrokerProcessor.searchOffsetByTimestamp, getMaxOffset, getMinOffset, getEarliestMsgStoretime,
getAllConsumerOffset, getAllDelayOffset, cloneGroupOffset (4.9.3).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from wakelog.broker.consumer_offsets import NO_OFFSET
from wakelog.broker.decision import Outcome
from wakelog.broker.effects import InPool, Work, WorkKind
from wakelog.broker.error_response import LimitReached
from wakelog.broker.names import check_group
from wakelog.broker.state import BrokerState
from wakelog.network.driver import NOW
from wakelog.network.request import Request
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.fastjson import dumps
from wakelog.protocol.headers.offsets import (
    CloneGroupOffsetRequestHeader,
    QueryConsumerOffsetRequestHeader,
    QueueRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from wakelog.storage.message_store import MessageStore

TOPICS_PER_STEP = 128
"""Some 0.3 ms."""


def update_consumer_offset(
    state: BrokerState, request: Request[UpdateConsumerOffsetRequestHeader]
) -> Outcome:
    """Commit the offset of one queue, a smaller one too (code 15, fact 38).

    A client that wants an answer waits until it is saved. Consumers commit one-way.
    """
    header = request.header
    state.topics.check_name(header.topic)
    check_group(header.consumer_group)
    if header.queue_id < 0:
        remark = f"queueId[{header.queue_id}] is illegal"
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    before = state.offsets.query(group, topic, queue_id)
    state.commit_offset(group, topic, queue_id, header.commit_offset)
    if not request.command.is_oneway:
        ours = {queue_id: header.commit_offset}
        known = {queue_id: before} if before != NO_OFFSET else {}
        state.keep_offsets(partial(state.offsets.restore, group, topic, ours, known))
    return request.success()


def query_consumer_offset(
    state: BrokerState, request: Request[QueryConsumerOffsetRequestHeader]
) -> Outcome | Work:
    """Return the committed offset of one queue (code 14).

    A group without one starts at 0 if the queue has lost nothing and begins near the log's end.
    Else it gets code 22 and starts where its own policy says (fact 39).
    """
    header = request.header
    queue_offset = state.offsets.query(header.consumer_group, header.topic, header.queue_id)
    if queue_offset >= 0:
        return request.success({"offset": str(queue_offset)})
    return _first_offset(state, request)


def _first_offset(state: BrokerState, request: Request[QueryConsumerOffsetRequestHeader]) -> Work:
    topic, queue_id = request.header.topic, request.header.queue_id
    if (yield InPool(partial(_starts_at_zero, state.store, topic, queue_id))):
        return request.success({"offset": "0"})
    remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
    return request.refusal(ResponseCode.QUERY_NOT_FOUND, remark)


def clone_group_offset(state: BrokerState, request: Request[CloneGroupOffsetRequestHeader]) -> Work:
    """Copy the offsets of one group to another, in one topic or in all (code 314).

    Left out are topics that do not exist, and unless `offline` those that the group, if it has
    clients, does not subscribe to. 4.9.3 copies nothing if no topic is named, and reports success.
    """
    header = request.header
    check_group(header.dest_group)
    group = header.src_group
    online = state.consumers.get(group)
    is_bound = not header.offline and online is not None and bool(online.subscriptions)
    named = header.topic if header.topic and not header.topic.isspace() else None
    topics = state.offsets.topics_of(group) if named is None else [named]
    cloned: dict[str, tuple[dict[int, int], dict[int, int]]] = {}

    def undo() -> None:
        for topic, (ours, before) in cloned.items():
            state.offsets.restore(header.dest_group, topic, ours, before)

    for number, topic in enumerate(topics, 1):
        if not number % TOPICS_PER_STEP:
            yield
        if state.topics.get(topic) is None:
            continue
        if is_bound and state.consumers.subscription(group, topic) is None:
            continue
        try:
            changed = state.offsets.clone(group, header.dest_group, topic)
        except LimitReached:
            undo()
            raise
        if changed is not None:
            cloned[topic] = changed
    if cloned:
        state.keep_offsets(undo)
    return request.success()


def get_all_consumer_offset(state: BrokerState, request: Request[None]) -> Work:
    """Return the offsets of all groups, as consumerOffset.json has them (code 43)."""
    encode = state.offsets.encoder()
    work = InPool(lambda: encode().encode(), WorkKind.ENCODE)
    return _positions(state, request, work)


def get_all_delay_offset(state: BrokerState, request: Request[None]) -> Work:
    """Return the offsets of the delay levels, as delayOffset.json has them (code 45)."""
    return _positions(state, request, InPool(partial(dumps, state.delayed.content())))


def _positions(state: BrokerState, request: Request[None], encode: InPool) -> Work:
    """Answer with positions that were read now, once the log that they count is confirmed."""
    end = state.store.max_physical_offset
    body = yield encode
    return state.when_confirmed(request.success(body=body), end, (yield NOW))


def search_offset_by_timestamp(
    state: BrokerState, request: Request[SearchOffsetRequestHeader]
) -> Work:
    """Return the queue offset nearest to a time (code 29)."""
    header = request.header
    state.topics.check_name(header.topic)
    work = partial(state.store.offset_by_time, header.topic, header.queue_id, header.timestamp)
    return _number(request, "offset", work)


def get_max_offset(state: BrokerState, request: Request[QueueRequestHeader]) -> Outcome | Work:
    """Return the end of a queue (code 30)."""
    store = state.store
    return _queue_number(
        state, request, "offset", store.max_queue_offset, store.max_queue_offset_nowait
    )


def get_min_offset(state: BrokerState, request: Request[QueueRequestHeader]) -> Outcome | Work:
    """Return the begin of a queue (code 31)."""
    store = state.store
    return _queue_number(
        state, request, "offset", store.min_queue_offset, store.min_queue_offset_nowait
    )


def get_earliest_store_time(
    state: BrokerState, request: Request[QueueRequestHeader]
) -> Outcome | Work:
    """Return the store time of a queue's first message (code 32), -1 if it has none."""
    return _queue_number(state, request, "timestamp", state.store.earliest_store_time)


def _queue_number(
    state: BrokerState,
    request: Request[QueueRequestHeader],
    name: str,
    read: Callable[[str, int], int],
    read_nowait: Callable[[str, int], int | None] | None = None,
) -> Outcome | Work:
    topic, queue_id = request.header.topic, request.header.queue_id
    state.topics.check_name(topic)
    number = None if read_nowait is None else read_nowait(topic, queue_id)
    if number is None:
        return _number(request, name, partial(read, topic, queue_id))
    return request.success({name: str(number)})


def _number(request: Request[Any], name: str, read: Callable[[], int]) -> Work:
    return request.success({name: str((yield InPool(read)))})


def _starts_at_zero(store: MessageStore, topic: str, queue_id: int) -> bool:
    return store.min_queue_offset(topic, queue_id) <= 0 and store.in_memory_at(topic, queue_id, 0)
