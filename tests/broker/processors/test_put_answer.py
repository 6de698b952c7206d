"""The store's refusals as response codes (SendMessageProcessor.handlePutMessageResult)."""

import pytest

from tests.broker.harness import Harness
from wakelog.protocol.codes import ResponseCode
from wakelog.storage.log.append import PutStatus

ROWS = [
    (PutStatus.CREATE_MAPPED_FILE_FAILED, ResponseCode.SYSTEM_ERROR, "create mapped file failed"),
    (PutStatus.MESSAGE_ILLEGAL, ResponseCode.MESSAGE_ILLEGAL, "the message is illegal"),
    (PutStatus.PROPERTIES_SIZE_EXCEEDED, ResponseCode.MESSAGE_ILLEGAL, "the message is illegal"),
    (PutStatus.MESSAGE_SIZE_EXCEEDED, ResponseCode.MESSAGE_ILLEGAL, "the message is illegal"),
    (PutStatus.SERVICE_NOT_AVAILABLE, ResponseCode.SERVICE_NOT_AVAILABLE, "service not available"),
    (PutStatus.OS_PAGE_CACHE_BUSY, ResponseCode.SYSTEM_ERROR, "[PC_SYNCHRONIZED]broker busy"),
    (
        PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED,
        ResponseCode.SYSTEM_ERROR,
        "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]",
    ),
    (PutStatus.UNKNOWN_ERROR, ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"),
]


@pytest.mark.parametrize(("status", "code", "remark"), ROWS)
def test_a_refusal_has_its_code(
    harness: Harness, status: PutStatus, code: int, remark: str
) -> None:
    harness.store.refusal = status
    response = harness.send("T")
    assert response.code == code
    assert (response.remark or "").startswith(remark)
    assert response.ext_fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


@pytest.mark.parametrize(
    ("status", "cause", "code", "remark"),
    [
        (
            PutStatus.SERVICE_NOT_AVAILABLE,
            "the disk is full",
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now: the disk is full",
        ),
        (
            PutStatus.CREATE_MAPPED_FILE_FAILED,
            "no space left",
            ResponseCode.SYSTEM_ERROR,
            "create mapped file failed: no space left",
        ),
    ],
)
def test_the_remark_has_the_cause_if_the_store_knows_it(
    harness: Harness, status: PutStatus, cause: str, code: ResponseCode, remark: str
) -> None:
    harness.store.refusal = status
    harness.store.cause = cause
    response = harness.send("T")
    assert response.code == code
    assert response.remark == remark


def test_every_refusal_is_in_the_table() -> None:
    assert {row[0] for row in ROWS} == set(PutStatus) - {PutStatus.PUT_OK}
