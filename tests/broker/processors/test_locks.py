"""Codes 41 and 42."""

from collections.abc import Generator
from itertools import pairwise

from tests.broker.harness import Harness
from wakelog.broker.decision import Appender, WriteLine
from wakelog.broker.lock_table import LockTable
from wakelog.broker.processors.locks import QUEUES_PER_STEP
from wakelog.broker.table_limits import TableLimits
from wakelog.protocol.bodies import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    decode_body,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import RequestCode, ResponseCode

Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def lock(harness: Harness, client_id: str, *queues: MessageQueue) -> set[MessageQueue]:
    body = encode_body(LockBatchRequestBody("g", client_id, set(queues)))
    response = harness.ask(RequestCode.LOCK_BATCH_MQ, body=body)
    assert response.code == ResponseCode.SUCCESS
    return decode_body(LockBatchResponseBody, response.body).lock_ok_mq_set


def unlock(harness: Harness, client_id: str, *queues: MessageQueue) -> None:
    body = encode_body(LockBatchRequestBody("g", client_id, set(queues)))
    assert harness.ask(RequestCode.UNLOCK_BATCH_MQ, body=body).code == ResponseCode.SUCCESS


def test_a_change_of_locks_is_a_line_and_a_renewal_is_none(harness: Harness) -> None:
    assert lock(harness, "c1", Q0, Q1) == {Q0, Q1}
    assert lock(harness, "c1", Q0, Q1) == {Q0, Q1}
    assert lock(harness, "c2", Q0) == set()
    unlock(harness, "c2", Q0)
    unlock(harness, "c1", Q0)
    values = {"group": "g", "client": "c1"}
    assert harness.instructions() == [
        WriteLine(Appender.REBALANCE_LOCK, "queues locked", values | {"queues": "T:0 T:1"}),
        WriteLine(Appender.REBALANCE_LOCK, "queues unlocked", values | {"queues": "T:0"}),
    ]


def test_nonsense_is_refused(harness: Harness) -> None:
    for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        assert harness.ask(code, body=b"{").code == ResponseCode.SYSTEM_ERROR


def test_many_queues_are_locked_and_unlocked_in_steps(harness: Harness) -> None:
    queues = {MessageQueue("T", "broker-a", number) for number in range(4_096)}
    body = encode_body(LockBatchRequestBody("g", "c1", queues))
    locked_counts = []
    for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        request = harness.request(code, {}, body)
        steps = harness.broker.process(request, harness.channel, harness.now_ms)
        assert isinstance(steps, Generator)
        for _ in steps:
            harness.broker.state.locks.validate()
            locked_counts.append(harness.broker.state.locks.statistics()["lock_count"])
    changes = [after - before for before, after in pairwise(locked_counts)]
    assert (max(changes), min(changes)) == (QUEUES_PER_STEP, -QUEUES_PER_STEP)
    assert (max(locked_counts), locked_counts[-1]) == (4_096, 0)


def test_locks_beyond_the_limit_are_refused_before_one_is_taken() -> None:
    harness = Harness()
    harness.broker.state.locks = LockTable(TableLimits(locks_per_group=1_000))
    queues = {MessageQueue("T", "broker-a", number) for number in range(1_001)}
    body = encode_body(LockBatchRequestBody("g", "c1", queues))
    assert harness.ask(RequestCode.LOCK_BATCH_MQ, body=body).code == ResponseCode.SYSTEM_ERROR
    assert harness.broker.state.locks.statistics()["lock_count"] == 0
