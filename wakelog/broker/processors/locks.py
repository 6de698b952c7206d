"""Codes 41 and 42: a client locks and unlocks queues that it consumes in order.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ
(4.9.3).
"""

from collections.abc import Collection

from wakelog.broker.decision import Appender, Outcome, WriteLine
from wakelog.broker.lock_table import LockedQueue
from wakelog.broker.state import BrokerState
from wakelog.network.request import Request
from wakelog.protocol.bodies import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    decode_body,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue


def lock_queues(state: BrokerState, request: Request[None]) -> Outcome:
    """Lock queues or renew their locks; return the queues that the client holds now (code 41)."""
    body = decode_body(LockBatchRequestBody, request.command.body)
    group, client_id, queues = body.consumer_group, body.client_id, _queues(body)
    held_before = _held_queues(state, body)
    locked = state.locks.lock(group, client_id, queues, request.now_ms)
    _log_change(state, "queues locked", body, set(locked) - held_before)
    held = LockBatchResponseBody({MessageQueue(*queue) for queue in locked})
    return request.success(body=encode_body(held))


def unlock_queues(state: BrokerState, request: Request[None]) -> Outcome:
    """Release the queues that the client holds (code 42)."""
    body = decode_body(LockBatchRequestBody, request.command.body)
    held_before = _held_queues(state, body)
    state.locks.unlock(body.consumer_group, body.client_id, _queues(body))
    _log_change(state, "queues unlocked", body, held_before)
    return request.success()


def _queues(body: LockBatchRequestBody) -> list[LockedQueue]:
    return [(queue.topic, queue.broker_name, queue.queue_id) for queue in body.mq_set]


def _held_queues(state: BrokerState, body: LockBatchRequestBody) -> set[LockedQueue]:
    group, client_id = body.consumer_group, body.client_id
    return {queue for queue in _queues(body) if state.locks.is_held(group, client_id, queue)}


def _log_change(
    state: BrokerState, event: str, body: LockBatchRequestBody, queues: Collection[LockedQueue]
) -> None:
    """Write the queues whose lock changed hands to the log of locks."""
    if queues:
        names = " ".join(f"{topic}:{queue_id}" for topic, _, queue_id in sorted(queues))
        values = {"group": body.consumer_group, "client": body.client_id, "queues": names}
        state.instructions.append(WriteLine(Appender.REBALANCE_LOCK, event, values))
