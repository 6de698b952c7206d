"""Codes 12 and 33: messages by key, and the message at a physical offset.

Both may read cold files, so both run in the pool. The response to a query by key has every record
whose key has the same hash; the client compares topic and key (fact 8).

Source: org.apache.rocketmq.broker.processor.QueryMessageProcessor (4.9.3).
"""

from functools import partial

from wakelog.broker.effects import InPool, Work, WorkKind
from wakelog.broker.state import BrokerState
from wakelog.network.request import Request
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import answer
from wakelog.protocol.headers.pull import QueryMessageRequestHeader, ViewMessageRequestHeader
from wakelog.storage.read.query import QueryResult


def query_message(state: BrokerState, request: Request[QueryMessageRequestHeader]) -> Work:
    """Return messages by key (code 12). A unique key is subject to the broker's own limit."""
    header = request.header
    unique = header.unique_key_query == "true"
    count_max = state.store_config.default_query_count_max if unique else header.max_num
    work = partial(
        state.store.query_message,
        header.topic,
        header.key,
        max(count_max, 0),
        header.begin_timestamp,
        header.end_timestamp,
    )
    result: QueryResult = yield InPool(work, WorkKind.SEARCH)
    fields = {
        "indexLastUpdateTimestamp": str(result.index_last_update_timestamp_ms),
        "indexLastUpdatePhyoffset": str(result.index_last_update_physical_offset),
    }
    body = b"".join(result.frames)
    if body:
        return request.success(fields, body)
    remark = "can not find message, maybe time range not correct"
    return answer(request.command, ResponseCode.QUERY_NOT_FOUND, remark, fields)


def view_message_by_id(state: BrokerState, request: Request[ViewMessageRequestHeader]) -> Work:
    """Return the record at a physical offset (code 33)."""
    record = yield InPool(partial(state.store.record_bytes, request.header.offset))
    if record is None:
        remark = f"can not find message by the offset, {request.header.offset}"
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
    return request.success(body=bytes(record))
