"""Code 321: the entries of a consume queue as they are on disk, with their extension units.

A tags code can be the address of an extension unit. Such an entry has the unit as JSON, the bitmap
as text, and whether tags code or bitmap let it pass to the group. The text has the last byte first,
and a line break after each eighth byte.

A thread reads the entries, and their JSON is written in steps: two such requests are under way at
once, and the others wait.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.queryConsumeQueue,
org.apache.rocketmq.broker.filter.ExpressionMessageFilter.isMatchedByConsumeQueue,
org.apache.rocketmq.filter.util.BitsArray.toString (4.9.3).
"""

from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from wakelog.broker.effects import InPool, Work
from wakelog.broker.state import BrokerState
from wakelog.filter.bloom import BloomFilter
from wakelog.filter.consumer_filters import ConsumerFilter, to_stored
from wakelog.filter.record_filter import match_bitmap
from wakelog.network.request import Request
from wakelog.protocol.bodies import (
    ConsumeQueueData,
    QueryConsumeQueueResponseBody,
    SubscriptionData,
    encode_body,
)
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.fastjson import dumps
from wakelog.protocol.headers.admin import QueryConsumeQueueRequestHeader
from wakelog.protocol.steps import Steps, batched
from wakelog.protocol.subscription import is_tag_type, matches
from wakelog.storage.message_store import MessageStore
from wakelog.storage.queue.consume_queue_ext import ExtensionUnit, is_extension_address

ENTRIES_MAX = 4_096  # about 300 KB of JSON; mqadmin asks for 10

ENTRIES_PER_STEP: Final = 512
"""Some 0.3 ms. All of them took 12 ms, and those of 200 requests came one after the other."""

_NO_ENTRIES: Final = b'"queueData":[]'
_ENTRY_TEXT: Final = b'{"eval":false,"physicOffset":%d,"physicSize":%d,"tagsCode":%d}'

Evaluate: TypeAlias = Callable[[ExtensionUnit], bool]
"""Tells whether an entry passes by its unit."""


def query_consume_queue(
    state: BrokerState, request: Request[QueryConsumeQueueRequestHeader]
) -> Work:
    """Return entries of a consume queue (code 321); an unknown queue is an error."""
    header = request.header
    state.topics.check_name(header.topic)
    body = QueryConsumeQueueResponseBody()
    evaluate = None
    if header.consumer_group is not None:
        subscription = state.consumers.subscription(header.consumer_group, header.topic)
        if subscription is None:
            body.filter_data = f"{header.consumer_group}@{header.topic} is not online!"
        else:
            kept = state.filters.get(header.topic, header.consumer_group)
            body.subscription_data = subscription
            # A subscription by tag has no filter data; fastjson writes its absence as null.
            text = "null" if kept is None else dumps(to_stored(kept), pretty=True).decode()
            body.filter_data = text
            evaluate = _evaluation(subscription, kept, state.filters.bloom)
    found = yield InPool(partial(_read_queue, state.store, header, body, evaluate))
    queue = f"{header.queue_id}@{header.topic}"
    if found is None:
        return request.refusal(ResponseCode.SYSTEM_ERROR, f"{queue} is not exist!")
    if found.queue_data is None:
        remark = f"Index {header.index} of {queue} is not exist!"
        return request.refusal(ResponseCode.SUCCESS, remark)
    return request.success(body=(yield from encode_in_steps(found)))


def encode_in_steps(found: QueryConsumeQueueResponseBody) -> Steps[bytes]:
    """Write a body as `encode_body` does; nearly all entries are three numbers."""
    shown, found.queue_data = found.queue_data or [], []
    head, mark, tail = encode_body(found).partition(_NO_ENTRIES)
    assert mark, "in a text it would have a backslash before each quote"
    parts = []
    for entries in batched(shown, ENTRIES_PER_STEP):
        parts.append(b",".join(map(_entry_text, entries)))
        yield
    return b"".join((head, _NO_ENTRIES[:-1], b",".join(parts), b"]", tail))


def _entry_text(data: ConsumeQueueData) -> bytes:
    if data.extend_data_json is not None or data.msg is not None:
        return dumps(data)
    return _ENTRY_TEXT % (data.physic_offset, data.physic_size, data.tags_code)


def _evaluation(
    subscription: SubscriptionData, kept: ConsumerFilter | None, bloom: BloomFilter
) -> Evaluate:
    if kept is None or is_tag_type(subscription.expression_type):
        return lambda unit: matches(subscription, unit.tags_code)
    match_unit = match_bitmap(bloom, kept)
    return lambda unit: match_unit(unit.store_timestamp_ms, unit.bitmap)


def _read_queue(
    store: MessageStore,
    header: QueryConsumeQueueRequestHeader,
    body: QueryConsumeQueueResponseBody,
    evaluate: Evaluate | None,
) -> QueryConsumeQueueResponseBody | None:
    """Return the body with the entries asked for; None if there is no such queue."""
    topic, queue_id = header.topic, header.queue_id
    if queue_id not in store.queues().get(topic, ()):
        return None
    body.min_queue_index = store.min_queue_offset(topic, queue_id)
    body.max_queue_index = store.max_queue_offset(topic, queue_id)
    if 0 <= header.index < body.max_queue_index:
        body.queue_data = read_entries(store, header, evaluate)
    return body


def read_entries(
    store: MessageStore,
    header: QueryConsumeQueueRequestHeader,
    evaluate: Evaluate | None,
) -> list[ConsumeQueueData]:
    """Return readable entries from the index of a request on; may wait for the disk."""
    topic, queue_id = header.topic, header.queue_id
    count_max = min(max(header.count, 0), ENTRIES_MAX)
    shown = []
    for entry in store.consume_queue_entries(topic, queue_id, header.index, count_max):
        data = ConsumeQueueData(*entry)
        if is_extension_address(data.tags_code):
            unit = store.extension_unit(topic, queue_id, data.tags_code)
            _show_extension(data, unit, evaluate)
        shown.append(data)
    return shown


def bitmap_text(bitmap: bytes) -> str:
    """Write a bitmap in the form of BitsArray.toString."""
    parts = []
    for index in range(len(bitmap) - 1, -1, -1):
        parts.append(f"{bitmap[index]:08b}")
        if index % 8 == 0:
            parts.append("\n")
    return "".join(parts)


def _show_extension(
    data: ConsumeQueueData, unit: ExtensionUnit | None, evaluate: Evaluate | None
) -> None:
    if unit is None:
        data.msg = f"Cq extend not exist!addr: {data.tags_code}"
        return
    bean = {
        "filterBitMap": b64encode(unit.bitmap).decode() if unit.bitmap else None,
        "msgStoreTime": unit.store_timestamp_ms,
        "size": unit.size_bytes,
        "tagsCode": unit.tags_code,
    }
    data.extend_data_json = dumps(bean).decode()
    data.bit_map = bitmap_text(unit.bitmap) if unit.bitmap else None
    data.eval = evaluate is not None and evaluate(unit)
