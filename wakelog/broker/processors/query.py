"""Codes 12 and 33: messages by key, and the one at a physical offset.

Both read index or log files that may be cold, so both run in the pool. The answer to a query by key
has every record whose key has the same hash; the client compares topic and key (fact 8).

Source: org.apache.rocketmq.broker.processor.QueryMessageProcessor (4.9.3).
"""

from functools import partial

from wakelog.broker.decision import Channel, Outcome, RunInPool
from wakelog.broker.state import BrokerState
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers.pull import QueryMessageRequestHeader, ViewMessageRequestHeader
from wakelog.storage.read.query import QueryResult

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"


def query_message(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer messages by key (code 12); for a unique key the broker's own limit counts."""
    header = read_header(QueryMessageRequestHeader, request.ext_fields)
    count_max = header.max_num
    if request.ext_fields.get(UNIQUE_KEY_QUERY) == "true":
        count_max = state.store_config.default_query_count_max
    work = partial(
        state.store.query_message,
        header.topic,
        header.key,
        max(count_max, 0),
        header.begin_timestamp,
        header.end_timestamp,
    )
    return RunInPool(work, partial(_answer_query, request))


def view_message_by_id(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer the record at a physical offset (code 33)."""
    header = read_header(ViewMessageRequestHeader, request.ext_fields)
    work = partial(state.store.record_bytes, header.offset)
    return RunInPool(work, partial(_answer_view, request, header.offset))


def _answer_query(request: RemotingCommand, result: QueryResult, now_ms: int) -> Outcome:
    fields = {
        "indexLastUpdateTimestamp": str(result.index_last_update_timestamp_ms),
        "indexLastUpdatePhyoffset": str(result.index_last_update_physical_offset),
    }
    body = b"".join(result.frames)
    if body:
        return answer(request, ResponseCode.SUCCESS, None, fields, body)
    return answer(
        request,
        ResponseCode.QUERY_NOT_FOUND,
        "can not find message, maybe time range not correct",
        fields,
    )


def _answer_view(
    request: RemotingCommand, physical_offset: int, record: bytes | None, now_ms: int
) -> Outcome:
    if record is None:
        return answer(
            request,
            ResponseCode.SYSTEM_ERROR,
            f"can not find message by the offset, {physical_offset}",
        )
    return answer(request, ResponseCode.SUCCESS, body=bytes(record))
