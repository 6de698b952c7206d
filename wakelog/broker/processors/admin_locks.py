"""Codes 41 and 42: a client locks and unlocks queues that it consumes in order.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ
(4.9.3).
"""

from collections.abc import Collection

from wakelog.broker.decision import Appender, Channel, Outcome, WriteLine
from wakelog.broker.lock_table import LockedQueue
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
    group, client_id = body.consumer_group, body.client_id
    held_before = {queue for queue in queues if state.locks.is_held(group, client_id, queue)}
    locked = state.locks.lock(group, client_id, queues, now_ms)
    _tell(state, "queues locked", group, client_id, set(locked) - held_before)
    held = LockBatchResponseBody({MessageQueue(*queue) for queue in locked})
    return answer(request, ResponseCode.SUCCESS, body=encode_body(held))


def unlock_queues(
    state: BrokerState, request: RemotingCommand, channel: Channel, now_ms: int
) -> Outcome:
    """Release the queues that the client holds (code 42)."""
    body = decode_body(UnlockBatchRequestBody, request.body)
    queues = [(queue.topic, queue.broker_name, queue.queue_id) for queue in body.mq_set]
    group, client_id = body.consumer_group, body.client_id
    held_before = {queue for queue in queues if state.locks.is_held(group, client_id, queue)}
    state.locks.unlock(group, client_id, queues)
    _tell(state, "queues unlocked", group, client_id, held_before)
    return answer(request, ResponseCode.SUCCESS)


def _tell(
    state: BrokerState, event: str, group: str, client_id: str, queues: Collection[LockedQueue]
) -> None:
    """Have a change written to the log of locks; a lock that is only renewed is none."""
    if queues:
        names = [f"{topic}:{queue_id}" for topic, _, queue_id in sorted(queues)]
        values = {"group": group, "client": client_id, "queues": " ".join(names)}
        state.instructions.append(WriteLine(Appender.REBALANCE_LOCK, event, values))
