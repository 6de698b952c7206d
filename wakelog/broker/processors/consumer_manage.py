"""Codes 38, 14 and 15: who else is in my group, where does it stand, it stands here now.

Source: org.apache.rocketmq.broker.processor.ConsumerManageProcessor (4.9.3).
"""

from wakelog.broker.decision import Channel, Outcome
from wakelog.broker.names import check_any_topic, check_group
from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import GetConsumerListByGroupResponseBody, encode_body
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers.clients import ConsumerGroupRequestHeader
from wakelog.protocol.headers.offsets import (
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)


def get_consumer_list(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer the client ids of a group (code 38)."""
    header = read_header(ConsumerGroupRequestHeader, request.ext_fields)
    group = state.consumers.get(header.consumer_group)
    if group is None:
        return answer(
            request,
            ResponseCode.SYSTEM_ERROR,
            f"no consumer for this group, {header.consumer_group}",
        )
    body = encode_body(GetConsumerListByGroupResponseBody(group.client_ids()))
    return answer(request, ResponseCode.SUCCESS, body=body)


def update_consumer_offset(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Take over the offset of one queue (code 15); a smaller one too (fact 38)."""
    header = read_header(UpdateConsumerOffsetRequestHeader, request.ext_fields)
    check_any_topic(header.topic)
    check_group(header.consumer_group)
    if header.queue_id < 0:
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR, f"queueId[{header.queue_id}] is illegal"
        )
    state.offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    return answer(request, ResponseCode.SUCCESS)


def query_consumer_offset(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Answer the offset of one queue (code 14).

    A group without one starts at 0 if the queue is still whole and near enough to the log's end;
    else it hears code 22 and starts where its own policy says (fact 39).
    """
    header = read_header(QueryConsumerOffsetRequestHeader, request.ext_fields)
    topic, queue_id = header.topic, header.queue_id
    queue_offset = state.offsets.query(header.consumer_group, topic, queue_id)
    if queue_offset < 0:
        whole = state.store.min_queue_offset(topic, queue_id) <= 0
        if not (whole and state.store.in_memory_at(topic, queue_id, 0)):
            return answer(
                request,
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
            )
        queue_offset = 0
    return answer(request, ResponseCode.SUCCESS, None, {"offset": str(queue_offset)})
