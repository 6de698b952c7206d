"""Codes 10, 310 and 320: a producer sends one message, or a batch of them.

The header field ``m`` or ``batch`` decides whether a request is a batch; its code does not. A batch
of many messages is encoded in steps, and placed as one piece like the others, before what the same
connection sends next. A delayed message is stored in the schedule topic. The response then has the
queue offset there, and the queue id that was asked for. So it is with a half message, which is
stored in the half topic.

Every response to a send carries MSG_REGION and TRACE_ON, because the Java client reads them without
checking that they exist. Codes 10, 11 and 12 are successes: the message is stored, and the response
carries its id.

Source: org.apache.rocketmq.broker.processor.SendMessageProcessor (with handlePutMessageResult),
org.apache.rocketmq.store.CommitLog.asyncPutMessage, asyncPutMessages (4.9.3).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from wakelog.broker.decision import Appender, AwaitFlush, Outcome, WriteLine
from wakelog.broker.delayed_delivery import delay_draft, delay_level
from wakelog.broker.effects import InPool, Work, rest_of
from wakelog.broker.error_response import LimitReached
from wakelog.broker.processors.send_check import (
    ILLEGAL_MESSAGE,
    check_dispatch,
    check_send,
    choose_queue,
    retry_count_max,
)
from wakelog.broker.state import BrokerState
from wakelog.broker.topics import added_sys_flag
from wakelog.broker.transactions import HALF_QUEUE_ID, prepare
from wakelog.network.driver import NOW
from wakelog.network.request import Request
from wakelog.protocol.batch import BatchedMessage, decode_messages
from wakelog.protocol.bodies import TopicConfig
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.errors import LocalProtocolError, RemoteProtocolError
from wakelog.protocol.headers.send import SendHeader
from wakelog.protocol.java import parse_boolean
from wakelog.protocol.message_id import create_message_id, create_message_ids
from wakelog.protocol.names import DLQ_PREFIX, RETRY_PREFIX, TRANS_HALF_TOPIC
from wakelog.protocol.properties import (
    CLUSTER,
    DELAY,
    MSG_REGION,
    TRACE_ON,
    TRANSACTION_PREPARED,
    WAIT,
    decode_properties,
    encode_properties,
    read_send_properties,
)
from wakelog.protocol.record import RECORD_BYTES_MIN
from wakelog.protocol.steps import Steps
from wakelog.protocol.sys_flag import (
    CONSUMED_TYPES,
    MESSAGE_BORN_HOST_V6,
    MESSAGE_STORE_HOST_V6,
    TRANSACTION_MASK,
    transaction_type,
)
from wakelog.storage.file_system import DiskUsage
from wakelog.storage.log.append import MessageDraft, PutResult, PutStatus
from wakelog.storage.log.encoded_batch import EncodedBatch

DLQ_QUEUE_COUNT = 1

MESSAGES_AT_ONCE: Final = 1_024
"""A longer batch is encoded in steps; so many messages take some 1.5 ms."""

MESSAGES_PER_STEP: Final = 128
"""Some 0.2 ms."""

_HOST_FLAGS = MESSAGE_BORN_HOST_V6 | MESSAGE_STORE_HOST_V6

_REFUSALS = {
    PutStatus.CREATE_MAPPED_FILE_FAILED: (
        ResponseCode.SYSTEM_ERROR,
        "create mapped file failed, server is busy or broken.",
    ),
    PutStatus.MESSAGE_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, ILLEGAL_MESSAGE),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (ResponseCode.MESSAGE_ILLEGAL, ILLEGAL_MESSAGE),
    PutStatus.SERVICE_NOT_AVAILABLE: (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now. It may be caused by one of the following reasons: "
        "the broker's disk is full [%s], messages are put to the slave, "
        "message store has been shut down, etc.",
    ),
    PutStatus.UNKNOWN_ERROR: (ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"),
}
"""Response code and remark for each reason why the store refuses a message."""

assert _REFUSALS.keys() == set(PutStatus) - {PutStatus.PUT_OK}


def send_message(state: BrokerState, request: Request[SendHeader]) -> Outcome | Work:
    """Store one message or a batch."""
    try:
        topic_config = check_send(state, request)
        if request.header.batch:
            return _send_batch(state, request, topic_config)
        return _send_single(state, request, topic_config)
    except RemoteProtocolError as error:
        return refuse_send(state, request, error)


def refuse_send(
    state: BrokerState, request: Request[SendHeader], error: RemoteProtocolError
) -> RemotingCommand:
    """Return the response to a send that is refused, with the fields of every such response."""
    if isinstance(error, LimitReached):
        state.log_refusal("limit reached", error, request.command.code)
    return answer(request.command, error.code, error.remark, trace_fields(state))


def trace_fields(state: BrokerState) -> dict[str, str]:
    """Return the two fields that every response to a send carries."""
    return {
        MSG_REGION: state.config.region_id,
        TRACE_ON: "true" if state.config.trace_on else "false",
    }


def _send_single(
    state: BrokerState, request: Request[SendHeader], topic_config: TopicConfig
) -> Outcome | Work:
    header, now_ms = request.header, request.now_ms
    topic, queue_id = header.topic, header.queue_id
    if queue_id < 0:
        queue_id = choose_queue(state, topic_config)
    answered_queue_id = queue_id
    if topic.startswith(RETRY_PREFIX) and _is_given_up(state, request):
        topic, queue_id = DLQ_PREFIX + topic[len(RETRY_PREFIX) :], 0
        topic_config = state.topics.create(topic, DLQ_QUEUE_COUNT, now_ms)
    properties, text = read_send_properties(header.properties, state.config.broker_cluster_name)
    sys_flag = send_sys_flag(header, topic_config)
    delayed = None
    prepared = properties.get(TRANSACTION_PREPARED)
    prepares = prepared is not None and parse_boolean(prepared)
    if prepares:
        _check_prepares(state, header)
        text = prepare(properties, topic, queue_id)
        topic, queue_id = TRANS_HALF_TOPIC, HALF_QUEUE_ID
        sys_flag &= ~TRANSACTION_MASK
    elif sys_flag & TRANSACTION_MASK and transaction_type(sys_flag) not in CONSUMED_TYPES:
        return _put_refusal(state, request.command, PutStatus.MESSAGE_ILLEGAL)
    elif DELAY in properties:
        delayed = delay_draft(state.delay_level_max, properties, topic, queue_id)
    if delayed is not None:
        topic, queue_id, text = delayed
    draft = MessageDraft(
        topic=topic,
        queue_id=queue_id,
        body=request.command.body,
        properties_text=text,
        flag=header.flag,
        sys_flag=sys_flag,
        born_timestamp_ms=header.born_timestamp,
        born_host=(request.channel.remote_host, request.channel.remote_port),
        store_host=state.store_host,
        reconsume_times=header.reconsume_times or 0,
    )
    result = state.store.put_message(draft, now_ms)
    if result.status is not PutStatus.PUT_OK:
        return _store_refusal(state, request.command, result)
    state.traffic.count_put(topic, 1, result.size_bytes)
    if delayed is not None:
        state.delayed.delayed_count += 1
        state.traffic.count_delayed(queue_id, result.size_bytes)
    elif prepares:
        state.transactions.prepared += 1
    message_id = create_message_id(*state.store_host, result.physical_offset)
    wait = properties.get(WAIT)
    return _stored(state, request, result, message_id, answered_queue_id, wait=wait)


def _check_prepares(state: BrokerState, header: SendHeader) -> None:
    """Refuse a half message if this broker takes none. Raises: RemoteProtocolError."""
    if state.config.reject_transaction_message:
        values = {"topic": header.topic, "producer_group": header.producer_group}
        state.instructions.append(WriteLine(Appender.TRANSACTION, "half message refused", values))
        remark = f"the broker[{state.config.broker_ip1}] sending transaction message is forbidden"
        raise RemoteProtocolError(ResponseCode.NO_PERMISSION, remark)


def _send_batch(
    state: BrokerState, request: Request[SendHeader], topic_config: TopicConfig
) -> Outcome | Work:
    header, command = request.header, request.command
    queue_id = header.queue_id
    if queue_id < 0:
        queue_id = choose_queue(state, topic_config)
    properties = decode_properties(header.properties)
    sys_flag = send_sys_flag(header, topic_config)
    message_bytes_max = state.store_config.message_bytes_max
    too_long = len(command.body) > message_bytes_max
    if too_long or sys_flag & TRANSACTION_MASK or delay_level(properties) > 0:
        return _put_refusal(state, command, PutStatus.MESSAGE_ILLEGAL)
    messages_max = message_bytes_max // RECORD_BYTES_MIN
    parts, end = decode_messages(command.body, 0, min(MESSAGES_AT_ONCE, messages_max + 1))
    if not parts:
        return _put_refusal(state, command, PutStatus.MESSAGE_ILLEGAL)
    if len(parts) > messages_max:
        # The store would refuse them as well, but only after it has encoded them all.
        return _put_refusal(state, command, PutStatus.UNKNOWN_ERROR)
    properties[CLUSTER] = state.config.broker_cluster_name
    outer = MessageDraft(
        topic=header.topic,
        queue_id=queue_id,
        body=b"",
        properties_text=encode_properties(properties),
        sys_flag=sys_flag,
        born_timestamp_ms=header.born_timestamp,
        born_host=(request.channel.remote_host, request.channel.remote_port),
        store_host=state.store_host,
        reconsume_times=header.reconsume_times or 0,
    )
    wait = properties.get(WAIT)
    if end < len(command.body):
        return _put_in_steps(state, request, outer, wait)
    _check_dispatches(state, parts)
    try:
        batch = EncodedBatch(outer, parts)
    except LocalProtocolError:
        return _put_refusal(state, command, PutStatus.MESSAGE_ILLEGAL)
    return _put_batch(state, request, batch, wait)


def _check_dispatches(state: BrokerState, parts: Sequence[BatchedMessage]) -> None:
    if state.store_config.enable_multi_dispatch:
        for _, _, block in parts:
            check_dispatch(block.decode("utf-8", "replace"))


def _encode_batch(
    state: BrokerState, request: Request[SendHeader], outer: MessageDraft
) -> Steps[EncodedBatch | RemotingCommand]:
    """Encode a long batch in steps, or return why it is refused; nothing is stored yet."""
    command, message_bytes_max = request.command, state.store_config.message_bytes_max
    position = 0
    try:
        batch = EncodedBatch(outer)
        while position < len(command.body):
            parts, position = decode_messages(command.body, position, MESSAGES_PER_STEP)
            _check_dispatches(state, parts)
            batch.add(parts)
            if len(batch.records) > message_bytes_max:
                return _put_refusal(state, command, PutStatus.UNKNOWN_ERROR)
            yield
    except RemoteProtocolError as error:
        return refuse_send(state, request, error)
    except LocalProtocolError:
        return _put_refusal(state, command, PutStatus.MESSAGE_ILLEGAL)
    return batch


def _put_in_steps(
    state: BrokerState, request: Request[SendHeader], outer: MessageDraft, wait: str | None
) -> Work:
    encoded = yield from _encode_batch(state, request, outer)
    if isinstance(encoded, RemotingCommand):
        return encoded
    request.now_ms = yield NOW
    return (yield from rest_of(_put_batch(state, request, encoded, wait)))


def _put_batch(
    state: BrokerState, request: Request[SendHeader], batch: EncodedBatch, wait: str | None
) -> Outcome | Work:
    outer = batch.outer
    result = state.store.put_batch(batch, request.now_ms)
    if result.status is not PutStatus.PUT_OK:
        return _store_refusal(state, request.command, result)
    state.traffic.count_put(outer.topic, len(result.physical_offsets), result.size_bytes)
    message_ids = create_message_ids(*state.store_host, result.physical_offsets)
    return _stored(state, request, result, message_ids, outer.queue_id, wait=wait)


def _stored(
    state: BrokerState,
    request: Request[SendHeader],
    result: PutResult,
    message_ids: str,
    queue_id: int,
    *,
    wait: str | None,
) -> RemotingCommand | AwaitFlush:
    """Make the response to a put that succeeded; it waits if the message asks for that."""
    fields = trace_fields(state) | {
        "msgId": message_ids,
        "queueId": str(queue_id),
        "queueOffset": str(result.queue_offset),
    }
    response = answer(request.command, ResponseCode.SUCCESS, None, fields)
    return state.when_kept(response, result.physical_offset_end, request.now_ms, wait)


def _store_refusal(
    state: BrokerState, request: RemotingCommand, result: PutResult
) -> Outcome | Work:
    """Make the response to a put that was refused; without a cause, as of a slave, 4.9.3's list.

    It has how full the disks are, which the pool finds out.
    """
    response = _put_refusal(state, request, result.status, result.cause)
    if result.status is not PutStatus.SERVICE_NOT_AVAILABLE or result.cause is not None:
        return response
    return _with_disks(state, response)


def _with_disks(state: BrokerState, response: RemotingCommand) -> Work:
    usages = yield InPool(state.store.disk_usages)
    response.remark = (response.remark or "") % _disks(state, usages)
    return response


def _disks(state: BrokerState, usages: Mapping[str, DiskUsage]) -> str:
    """Write how full the disks are in the form of SendMessageProcessor.diskUtil."""
    paths = state.store_config.paths
    shares = {path: each.used_bytes / each.total_bytes for path, each in usages.items()}
    log = max((shares.get(path, -1.0) for path in paths.commit_log_directories), default=-1.0)
    queues, index = shares.get(paths.consume_queue_root, -1.0), shares.get(paths.root, -1.0)
    return f"CL: {log:5.2f} CQ: {queues:5.2f} INDEX: {index:5.2f}"


def _put_refusal(
    state: BrokerState, request: RemotingCommand, status: PutStatus, cause: str | None = None
) -> RemotingCommand:
    """Make the response to a send that the store refused.

    cause: the actual cause, where 4.9.3 lists the possible ones.
    """
    code, remark = _REFUSALS[status]
    if cause is not None:
        no_segment = status is PutStatus.CREATE_MAPPED_FILE_FAILED
        what = "create mapped file failed" if no_segment else "service not available now"
        remark = f"{what}: {cause}"
    return answer(request, code, remark, trace_fields(state))


def send_sys_flag(header: SendHeader, topic_config: TopicConfig) -> int:
    """Return the flag to store. The host bits follow from the hosts, not from the client."""
    return header.sys_flag & ~_HOST_FLAGS | added_sys_flag(topic_config)


def _is_given_up(state: BrokerState, request: Request[SendHeader]) -> bool:
    """Return whether a message sent to %RETRY% was tried often enough to go to %DLQ%."""
    group = state.find_group(request.header.topic[len(RETRY_PREFIX) :], request.now_ms)
    return (request.header.reconsume_times or 0) >= retry_count_max(group, request)
