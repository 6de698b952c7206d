"""Codes 29, 30, 31, 32 and 321: where a queue begins and ends, by offset, by time, entry by entry.

An unknown topic or queue is empty, never an error (fact 28), but for code 321.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.searchOffsetByTimestamp,
getMaxOffset, getMinOffset, getEarliestMsgStoretime, queryConsumeQueue (4.9.3).
"""

from functools import partial

from wakelog.broker.decision import Channel, Outcome, RunInPool
from wakelog.broker.names import check_any_topic
from wakelog.broker.processors.consume_queue_view import read_entries
from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import QueryConsumeQueueResponseBody, encode_body
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers.admin import QueryConsumeQueueRequestHeader
from wakelog.protocol.headers.offsets import QueueRequestHeader, SearchOffsetRequestHeader
from wakelog.storage.message_store import MessageStore


def search_offset_by_timestamp(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer the queue offset nearest to a time (code 29)."""
    header = read_header(SearchOffsetRequestHeader, request.ext_fields)
    check_any_topic(header.topic)
    work = partial(state.store.offset_by_time, header.topic, header.queue_id, header.timestamp)
    return RunInPool(work, partial(_answer_number, request, "offset"))


def get_max_offset(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer the end of a queue (code 30)."""
    header = read_header(QueueRequestHeader, request.ext_fields)
    check_any_topic(header.topic)
    queue_offset = state.store.max_queue_offset_nowait(header.topic, header.queue_id)
    if queue_offset is None:
        work = partial(state.store.max_queue_offset, header.topic, header.queue_id)
        return RunInPool(work, partial(_answer_number, request, "offset"))
    return _answer_number(request, "offset", queue_offset, now_ms)


def get_min_offset(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer the begin of a queue (code 31)."""
    header = read_header(QueueRequestHeader, request.ext_fields)
    check_any_topic(header.topic)
    queue_offset = state.store.min_queue_offset_nowait(header.topic, header.queue_id)
    if queue_offset is None:
        work = partial(state.store.min_queue_offset, header.topic, header.queue_id)
        return RunInPool(work, partial(_answer_number, request, "offset"))
    return _answer_number(request, "offset", queue_offset, now_ms)


def get_earliest_store_time(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer when a queue's first message was stored (code 32), -1 if it has none."""
    header = read_header(QueueRequestHeader, request.ext_fields)
    check_any_topic(header.topic)
    work = partial(state.store.earliest_store_time, header.topic, header.queue_id)
    return RunInPool(work, partial(_answer_number, request, "timestamp"))


def query_consume_queue(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer entries of a consume queue as they lie on the disk (code 321)."""
    header = read_header(QueryConsumeQueueRequestHeader, request.ext_fields)
    topic = header.topic or ""
    check_any_topic(topic)
    body = QueryConsumeQueueResponseBody()
    if header.consumer_group is not None:
        body.subscription_data = state.consumers.subscription(header.consumer_group, topic)
        online = body.subscription_data is not None
        # No filter data is kept for subscriptions by tag; fastjson writes its absence as null.
        body.filter_data = "null" if online else f"{header.consumer_group}@{topic} is not online!"
    return RunInPool(
        partial(_read_queue, state.store, header, topic, body),
        partial(_answer_queue, request, header, topic),
    )


def _read_queue(
    store: MessageStore,
    header: QueryConsumeQueueRequestHeader,
    topic: str,
    body: QueryConsumeQueueResponseBody,
) -> QueryConsumeQueueResponseBody | None:
    """Return the body with the entries asked for in it; None if there is no such queue."""
    if header.queue_id not in store.queues().get(topic, ()):
        return None
    body.min_queue_index = store.min_queue_offset(topic, header.queue_id)
    body.max_queue_index = store.max_queue_offset(topic, header.queue_id)
    if 0 <= header.index < body.max_queue_index:
        body.queue_data = read_entries(
            store,
            topic,
            header.queue_id,
            begin=header.index,
            count=header.count,
            subscription=body.subscription_data,
        )
    return body


def _answer_queue(
    request: RemotingCommand,
    header: QueryConsumeQueueRequestHeader,
    topic: str,
    body: QueryConsumeQueueResponseBody | None,
    now_ms: int,
) -> Outcome:
    if body is None:
        return answer(
            request, ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{topic} is not exist!"
        )
    if body.queue_data is None:
        remark = f"Index {header.index} of {header.queue_id}@{topic} is not exist!"
        return answer(request, ResponseCode.SUCCESS, remark)
    return answer(request, ResponseCode.SUCCESS, body=encode_body(body))


def _answer_number(request: RemotingCommand, name: str, number: int, now_ms: int) -> Outcome:
    return answer(request, ResponseCode.SUCCESS, None, {name: str(number)})
