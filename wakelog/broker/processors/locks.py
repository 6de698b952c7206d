"""Codes 41 and 42: a client locks and unlocks queues that it consumes in order.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ
(4.9.3).
"""

from collections.abc import Iterator, Sequence, Set
from itertools import islice

from wakelog.broker.decision import Appender, WriteLine
from wakelog.broker.effects import Work
from wakelog.broker.names import check_client_id, check_group
from wakelog.broker.state import BrokerState
from wakelog.network.request import Request
from wakelog.protocol import fastjson
from wakelog.protocol.bodies import LockBatchRequestBody
from wakelog.protocol.body_codec import MessageQueue, decode_body_in_steps
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.names import GROUP_LENGTH_MAX
from wakelog.protocol.steps import batched

QUEUES_PER_STEP = 256
"""Some 0.5 ms to lock them and to name them in the response."""

LOGGED_MAX = 64
"""How many queues one line names."""


def lock_queues(state: BrokerState, request: Request[None]) -> Work:
    """Lock queues or renew their locks; return the queues that the client holds now (code 41)."""
    body = yield from decode_body_in_steps(LockBatchRequestBody, request.command.body)
    group, client_id = body.consumer_group, body.client_id
    check_group(group)
    check_client_id(client_id)
    for some in _steps_of(body.mq_set):
        if max(max(len(queue.topic), len(queue.broker_name)) for queue in some) > GROUP_LENGTH_MAX:
            remark = f"a queue's topic or broker is longer than {GROUP_LENGTH_MAX} characters"
            return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
        if len(some) == QUEUES_PER_STEP:
            yield
    state.locks.check_room(group, body.mq_set)
    new: list[MessageQueue] = []
    texts = []
    for some in _steps_of(body.mq_set):
        held_before = state.locks.held(group, client_id, some)
        locked = state.locks.lock(group, client_id, some, request.now_ms)
        new += locked - held_before
        if locked:
            texts.append(fastjson.dumps(locked).strip(b"[]"))
        if len(some) == QUEUES_PER_STEP:
            yield
    _log_change(state, "queues locked", body, new)
    return request.success(body=b'{"lockOKMQSet":[' + b",".join(texts) + b"]}")


def unlock_queues(state: BrokerState, request: Request[None]) -> Work:
    """Release the queues that the client holds (code 42)."""
    body = yield from decode_body_in_steps(LockBatchRequestBody, request.command.body)
    released: list[MessageQueue] = []
    for some in _steps_of(body.mq_set):
        released += state.locks.unlock(body.consumer_group, body.client_id, some)
        if len(some) == QUEUES_PER_STEP:
            yield
    _log_change(state, "queues unlocked", body, released)
    return request.success()


def _steps_of(queues: Set[MessageQueue]) -> Iterator[set[MessageQueue]]:
    return map(set, batched(queues, QUEUES_PER_STEP))


def _log_change(
    state: BrokerState, event: str, body: LockBatchRequestBody, queues: Sequence[MessageQueue]
) -> None:
    """Write the queues whose lock changed hands to the log of locks."""
    if queues:
        shown = sorted(islice(queues, LOGGED_MAX))
        names = " ".join(f"{queue.topic}:{queue.queue_id}" for queue in shown)
        if len(queues) > LOGGED_MAX:
            names = f"{names} and {len(queues) - LOGGED_MAX} more"
        values = {"group": body.consumer_group, "client": body.client_id, "queues": names}
        state.instructions.append(WriteLine(Appender.REBALANCE_LOCK, event, values))
