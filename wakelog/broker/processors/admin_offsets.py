"""Codes 29, 30, 31, 32 and 321: where a queue begins and ends, by offset, by time, entry by entry.

An unknown topic or queue is empty, never an error (fact 28), but for code 321.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.searchOffsetByTimestamp,
getMaxOffset, getMinOffset, getEarliestMsgStoretime, queryConsumeQueue (4.9.3).
"""

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from wakelog.broker.decision import Channel, Outcome, RunInPool
from wakelog.broker.names import check_topic
from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import (
    ConsumeQueueData,
    QueryConsumeQueueResponseBody,
    encode_body,
)
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.headers import (
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    QueryConsumeQueueRequestHeader,
    SearchOffsetRequestHeader,
    read_header,
)
from wakelog.storage.message_store import MessageStore

ENTRIES_MAX = 4_096  # about 300 KB of JSON; mqadmin asks for 10

QueuePart: TypeAlias = tuple[int, int, Sequence[tuple[int, int, int]]]
"""Begin and end of a queue, and entries of (physical offset, size, tags code)."""


def search_offset_by_timestamp(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer the queue offset nearest to a time (code 29)."""
    header = read_header(SearchOffsetRequestHeader, request.ext_fields)
    check_topic(header.topic)
    work = partial(state.store.offset_by_time, header.topic, header.queue_id, header.timestamp)
    return RunInPool(work, partial(_answer_number, request, "offset"))


def get_max_offset(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer the end of a queue (code 30)."""
    header = read_header(GetMaxOffsetRequestHeader, request.ext_fields)
    check_topic(header.topic)
    queue_offset = state.store.max_queue_offset(header.topic, header.queue_id)
    return _answer_number(request, "offset", queue_offset, now_ms)


def get_min_offset(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer the begin of a queue (code 31)."""
    header = read_header(GetMinOffsetRequestHeader, request.ext_fields)
    check_topic(header.topic)
    queue_offset = state.store.min_queue_offset(header.topic, header.queue_id)
    return _answer_number(request, "offset", queue_offset, now_ms)


def get_earliest_store_time(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer when a queue's first message was stored (code 32), -1 if it has none."""
    header = read_header(GetEarliestMsgStoretimeRequestHeader, request.ext_fields)
    check_topic(header.topic)
    work = partial(state.store.earliest_store_time, header.topic, header.queue_id)
    return RunInPool(work, partial(_answer_number, request, "timestamp"))


def query_consume_queue(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer entries of a consume queue as they lie on the disk (code 321)."""
    header = read_header(QueryConsumeQueueRequestHeader, request.ext_fields)
    topic = header.topic or ""
    check_topic(topic)
    body = QueryConsumeQueueResponseBody()
    if header.consumer_group is not None:
        body.subscription_data = state.consumers.subscription(header.consumer_group, topic)
        online = body.subscription_data is not None
        # No filter data is kept for subscriptions by tag; fastjson writes its absence as null.
        body.filter_data = "null" if online else f"{header.consumer_group}@{topic} is not online!"
    return RunInPool(
        partial(_read_entries, state.store, header, topic),
        partial(_answer_entries, request, header, topic, body),
    )


def _read_entries(
    store: MessageStore, header: QueryConsumeQueueRequestHeader, topic: str
) -> QueuePart | None:
    """Return both ends of the queue and the entries asked for; None if there is no such queue."""
    if header.queue_id not in store.queues().get(topic, ()):
        return None
    begin, end = (
        store.min_queue_offset(topic, header.queue_id),
        store.max_queue_offset(topic, header.queue_id),
    )
    entries: Sequence[tuple[int, int, int]] = ()
    if 0 <= header.index < end:
        count_max = min(max(header.count, 0), ENTRIES_MAX)
        entries = store.consume_queue_entries(topic, header.queue_id, header.index, count_max)
    return begin, end, entries


def _answer_entries(
    request: RemotingCommand,
    header: QueryConsumeQueueRequestHeader,
    topic: str,
    body: QueryConsumeQueueResponseBody,
    found: QueuePart | None,
    now_ms: int,
) -> Outcome:
    if found is None:
        return answer(
            request, ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{topic} is not exist!"
        )
    body.min_queue_index, body.max_queue_index, entries = found
    if not entries:
        remark = f"Index {header.index} of {header.queue_id}@{topic} is not exist!"
        return answer(request, ResponseCode.SUCCESS, remark)
    body.queue_data = [ConsumeQueueData(*entry) for entry in entries]
    return answer(request, ResponseCode.SUCCESS, body=encode_body(body))


def _answer_number(request: RemotingCommand, name: str, number: int, now_ms: int) -> Outcome:
    return answer(request, ResponseCode.SUCCESS, None, {name: str(number)})
