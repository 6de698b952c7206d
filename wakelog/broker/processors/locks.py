"""Codes 41 and 42: a client locks and unlocks queues that it consumes in order.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ
(4.9.3).
"""

from collections.abc import Set
from itertools import islice

from wakelog.broker.decision import Appender, Outcome, WriteLine
from wakelog.broker.names import check_client_id, check_group
from wakelog.broker.state import BrokerState
from wakelog.network.request import Request
from wakelog.protocol.bodies import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    decode_body,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.names import GROUP_LENGTH_MAX

LOGGED_MAX = 64
"""How many queues one line names."""


def lock_queues(state: BrokerState, request: Request[None]) -> Outcome:
    """Lock queues or renew their locks; return the queues that the client holds now (code 41)."""
    body = decode_body(LockBatchRequestBody, request.command.body)
    group, client_id, queues = body.consumer_group, body.client_id, body.mq_set
    check_group(group)
    check_client_id(client_id)
    if any(max(len(q.topic), len(q.broker_name)) > GROUP_LENGTH_MAX for q in queues):
        remark = f"a queue's topic or broker is longer than {GROUP_LENGTH_MAX} characters"
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
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
        shown = sorted(islice(queues, LOGGED_MAX))
        names = " ".join(f"{queue.topic}:{queue.queue_id}" for queue in shown)
        if len(queues) > LOGGED_MAX:
            names = f"{names} and {len(queues) - LOGGED_MAX} more"
        values = {"group": body.consumer_group, "client": body.client_id, "queues": names}
        state.instructions.append(WriteLine(Appender.REBALANCE_LOCK, event, values))
