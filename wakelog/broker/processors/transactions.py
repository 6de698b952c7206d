"""Codes 37 and 323: a producer ends a transaction; an operator has one checked again.

Both read the half message from the log, in the pool if the disk is needed. A commit puts the
message for consumers and then the op message, in one turn. Its response waits for the disk and a
slave as that to a send does, if the half message asked for that. As in 4.9.3 a wait that took too
long is no failure: the message is there. In a group it waits for the in-sync replicas, and that
wait may fail with code 12, or with 14 if another replica is to lead: the producer ends it again.

A request with type NOT gets no response (fact 55): the check asks again. An ended transaction that
is ended again is not noticed, as in 4.9.3.

Source: org.apache.rocketmq.broker.processor.{EndTransactionProcessor,
AdminBrokerProcessor.resumeCheckHalfMessage} (4.9.3).
"""

from functools import partial
from typing import Final

from wakelog.broker.decision import Appender, AwaitFlush, Outcome, WriteLine
from wakelog.broker.delayed_delivery import delivered_draft
from wakelog.broker.effects import InPool, Work
from wakelog.broker.state import BrokerState
from wakelog.broker.transactions import committed_draft, op_draft, resumed_draft
from wakelog.network.driver import NOW
from wakelog.network.request import Request
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers.transactions import (
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from wakelog.protocol.message_id import decode_message_id
from wakelog.protocol.names import TRANS_HALF_TOPIC
from wakelog.protocol.properties import (
    PRODUCER_GROUP,
    TRANSACTION_CHECK_TIMES,
    WAIT,
    decode_properties,
)
from wakelog.protocol.record import MessageRecord
from wakelog.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK
from wakelog.storage.log.append import PutStatus

_ENDS: Final = {
    TRANSACTION_NOT: "it's pending status",
    TRANSACTION_COMMIT: "the producer commit the message",
    TRANSACTION_ROLLBACK: "the producer rollback the message",
}
"""The types that a request may have, in the words of 4.9.3's log."""

_NOT_SET: Final = "not set any response code"
"""4.9.3's remark of a response that only its code was set of."""

_NOT_FOUND: Final = "Find prepared transaction message failed"

_ILLEGAL: Final = (
    "The message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit 128k, msg properties length limit 32k."
)

_REFUSALS: Final = {
    PutStatus.CREATE_MAPPED_FILE_FAILED: (
        ResponseCode.SYSTEM_ERROR,
        "Create mapped file failed.",
    ),
    PutStatus.MESSAGE_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL),
    PutStatus.SERVICE_NOT_AVAILABLE: (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "Service not available now.",
    ),
    PutStatus.UNKNOWN_ERROR: (ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"),
}
"""Response code and remark for each reason why the store refuses a committed message."""

_RESUME_FAILED: Final = (
    "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."
)
_RESUME_REFUSED: Final = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."


def end_transaction(
    state: BrokerState, request: Request[EndTransactionRequestHeader]
) -> Outcome | Work:
    """Commit a half message, roll it back, or wait for the check (code 37)."""
    header = request.header
    end = header.commit_or_rollback
    if end not in _ENDS:
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, "commitOrRollback field wrong")
    if state.is_slave:
        return request.refusal(ResponseCode.SLAVE_NOT_AVAILABLE, _NOT_SET)
    if header.from_transaction_check or end != TRANSACTION_COMMIT:
        _write_line(state, request)
    if end == TRANSACTION_NOT:
        return None
    # A producer that is asked answers before the replicas of a group have what was put back. What
    # ends it is put behind it: if one is cut from the log, so is the other.
    half = state.store.message_at_nowait(header.commit_log_offset, sees_held=True)
    if half is not None:
        return _end(state, request, half, request.now_ms)
    return _read_and_end(state, request)


def _read_and_end(state: BrokerState, request: Request[EndTransactionRequestHeader]) -> Work:
    offset = request.header.commit_log_offset
    half = yield InPool(partial(state.store.message_at, offset, sees_held=True))
    return _end(state, request, half, (yield NOW))


def _write_line(state: BrokerState, request: Request[EndTransactionRequestHeader]) -> None:
    header, channel = request.header, request.channel
    checked = header.from_transaction_check
    asked = "check producer transaction state" if checked else "end transaction in sending message"
    values = {
        "producer": f"{channel.remote_host}:{channel.remote_port}",
        "producer_group": header.producer_group,
        "message_id": header.msg_id,
        "remark": request.command.remark,
    }
    line = WriteLine(Appender.TRANSACTION, f"{asked}, {_ENDS[header.commit_or_rollback]}", values)
    state.instructions.append(line)


def _end(
    state: BrokerState,
    request: Request[EndTransactionRequestHeader],
    half: MessageRecord | None,
    now_ms: int,
) -> Outcome:
    # 4.9.3 takes any record that the offsets fit; a client could have one consumed again.
    if half is None or half.topic != TRANS_HALF_TOPIC:
        return request.refusal(ResponseCode.SYSTEM_ERROR, _NOT_FOUND)
    properties = decode_properties(half.properties_text)
    if properties.get(PRODUCER_GROUP) != request.header.producer_group:
        return request.refusal(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    if half.queue_offset != request.header.tran_state_table_offset:
        remark = "The transaction state table offset wrong"
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
    if request.header.commit_or_rollback == TRANSACTION_COMMIT:
        return _commit(state, request, half, properties, now_ms)
    status = _put_op(state, half, now_ms)
    if status is not PutStatus.PUT_OK:
        # 4.9.3 answers success, and the producer is asked again.
        return request.refusal(*_REFUSALS[status])
    state.transactions.rolled_back += 1
    return request.refusal(ResponseCode.SUCCESS, _NOT_SET)


def _commit(
    state: BrokerState,
    request: Request[EndTransactionRequestHeader],
    half: MessageRecord,
    properties: dict[str, str],
    now_ms: int,
) -> RemotingCommand | AwaitFlush:
    draft = committed_draft(half, properties)
    if draft is None:
        return request.refusal(ResponseCode.MESSAGE_ILLEGAL, _ILLEGAL)
    result = state.store.put_message(draft, now_ms)
    if result.status is not PutStatus.PUT_OK:
        return request.refusal(*_REFUSALS[result.status])
    _put_op(state, half, now_ms)
    state.transactions.committed += 1
    return state.when_kept(
        request.success(),
        result.physical_offset_end,
        now_ms,
        properties.get(WAIT),
        keeps_code=True,
    )


def _put_op(state: BrokerState, half: MessageRecord, now_ms: int) -> PutStatus:
    """Put the op message. If the store refuses it, the half message is checked again."""
    result = state.store.put_message(op_draft(half, state.store_host, now_ms), now_ms)
    state.open_check.on_ended(half.queue_offset)
    if result.status is not PutStatus.PUT_OK:
        values = {"queue_offset": half.queue_offset, "cause": result.status.value}
        line = WriteLine(Appender.TRANSACTION, "transaction op message write failed", values)
        state.instructions.append(line)
    return result.status


def resume_check(state: BrokerState, request: Request[ResumeCheckHalfMessageRequestHeader]) -> Work:
    """Put a half message that was given up back into the half queue (code 323)."""
    try:
        _, physical_offset = decode_message_id(request.header.msg_id or "")
    except RemoteProtocolError:
        return request.refusal(ResponseCode.SYSTEM_ERROR, _RESUME_FAILED)
    record = yield InPool(partial(state.store.message_at, physical_offset))
    # 4.9.3 takes any record, and cannot check one that has no destination.
    if record is None or delivered_draft(record) is None:
        return request.refusal(ResponseCode.SYSTEM_ERROR, _RESUME_FAILED)
    properties = decode_properties(record.properties_text)
    properties[TRANSACTION_CHECK_TIMES] = "0"
    result = state.store.put_message(resumed_draft(record, properties), (yield NOW))
    if result.status is not PutStatus.PUT_OK:
        return request.refusal(ResponseCode.SYSTEM_ERROR, _RESUME_REFUSED)
    return request.success()
