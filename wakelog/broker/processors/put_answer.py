"""The response code and remark for each reason why the store refuses a message.

Source: org.apache.rocketmq.broker.processor.SendMessageProcessor.handlePutMessageResult (4.9.3).
"""

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.storage.log.append import PutStatus

_ILLEGAL = (
    "the message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit 128k, msg properties length limit 32k."
)

REFUSALS: dict[PutStatus, tuple[ResponseCode, str]] = {
    PutStatus.CREATE_MAPPED_FILE_FAILED: (
        ResponseCode.SYSTEM_ERROR,
        "create mapped file failed, server is busy or broken.",
    ),
    PutStatus.MESSAGE_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL),
    PutStatus.MESSAGE_SIZE_EXCEEDED: (ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL),
    PutStatus.SERVICE_NOT_AVAILABLE: (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now. It may be caused by one of the following reasons: "
        "the broker's disk is full, messages are put to the slave, "
        "message store has been shut down, etc.",
    ),
    PutStatus.OS_PAGE_CACHE_BUSY: (
        ResponseCode.SYSTEM_ERROR,
        "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
    ),
    PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED: (
        ResponseCode.SYSTEM_ERROR,
        "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq and enableMultiDispatch, "
        "lmq consumeQueue num exceed maxLmqConsumeQueueNum config num, default limit 2w.",
    ),
    PutStatus.UNKNOWN_ERROR: (ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"),
}

assert REFUSALS.keys() == set(PutStatus) - {PutStatus.PUT_OK}


def put_refusal(
    request: RemotingCommand,
    status: PutStatus,
    ext_fields: dict[str, str],
    cause: str | None = None,
) -> RemotingCommand:
    """Make the response to a send that the store refused.

    cause: the actual cause, where 4.9.3 lists the possible ones.
    """
    code, remark = REFUSALS[status]
    if cause is not None:
        no_segment = status is PutStatus.CREATE_MAPPED_FILE_FAILED
        what = "create mapped file failed" if no_segment else "service not available now"
        remark = f"{what}: {cause}"
    return answer(request, code, remark, ext_fields)
