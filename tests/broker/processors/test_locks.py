"""Codes 41 and 42."""

from tests.broker.harness import Harness
from wakelog.broker.decision import Appender, WriteLine
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
