"""Codes 41 and 42: a client locks and unlocks queues that it consumes in order.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ
(4.9.3).
"""

from wakelog.broker.decision import Channel, Outcome
from wakelog.broker.state import BrokerState
from wakelog.protocol.bodies import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
    decode_body,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer


def lock_queues(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Lock or renew queues; answer those that the client holds now (code 41)."""
    body = decode_body(LockBatchRequestBody, request.body)
    queues = [(queue.topic, queue.broker_name, queue.queue_id) for queue in body.mq_set]
    locked = state.locks.lock(body.consumer_group, body.client_id, queues, now_ms)
    held = LockBatchResponseBody({MessageQueue(*queue) for queue in locked})
    return answer(request, ResponseCode.SUCCESS, body=encode_body(held))


def unlock_queues(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Release the queues that the client holds (code 42)."""
    body = decode_body(UnlockBatchRequestBody, request.body)
    queues = [(queue.topic, queue.broker_name, queue.queue_id) for queue in body.mq_set]
    state.locks.unlock(body.consumer_group, body.client_id, queues)
    return answer(request, ResponseCode.SUCCESS)
