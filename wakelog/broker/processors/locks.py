"""Codes 41 and 42: a client locks and unlocks queues that it consumes in order.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ
(4.9.3).
"""

from collections.abc import Set

from wakelog.broker.decision import Appender, Outcome, WriteLine
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
    group, client_id, queues = body.consumer_group, body.client_id, body.mq_set
    held_before = state.locks.held(group, client_id, queues)
    locked = state.locks.lock(group, client_id, queues, request.now_ms)
    _log_change(state, "queues locked", body, locked - held_before)
    return request.success(body=encode_body(LockBatchResponseBody(locked)))


def unlock_queues(state: BrokerState, request: Request[None]) -> Outcome:
    """Release the queues that the client holds (code 42)."""
    body = decode_body(LockBatchRequestBody, request.command.body)
    released = state.locks.unlock(body.consumer_group, body.client_id, body.mq_set)
    _log_change(state, "queues unlocked", body, released)
    return request.success()


def _log_change(
    state: BrokerState, event: str, body: LockBatchRequestBody, queues: Set[MessageQueue]
) -> None:
    """Write the queues whose lock changed hands to the log of locks."""
    if queues:
        names = " ".join(f"{queue.topic}:{queue.queue_id}" for queue in sorted(queues))
        values = {"group": body.consumer_group, "client": body.client_id, "queues": names}
        state.instructions.append(WriteLine(Appender.REBALANCE_LOCK, event, values))
