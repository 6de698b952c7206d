"""Codes 222, 223, 307 and 309: what operators ask the clients of a group, through the broker.

    222   reset the offsets of a group: each client gets the new offsets (220) and goes on there
    223   the offsets of each client, by asking one client after the other (221)
    307   what a client does: its queues, threads and rates
    309   let a client consume one message now

307 and 309 go on to the client as they came, without the fields of a signature. The response of the
client is the response. A client that is silent for 10 s is code 207. Clients older than the
snapshots of 3.0.7 and 3.1.8 are refused.

Source: org.apache.rocketmq.broker.client.net.Broker2Client,
org.apache.rocketmq.broker.processor.AdminBrokerProcessor.callConsumer, getConsumerRunningInfo,
consumeMessageDirectly (4.9.3).
"""

from functools import partial

from wakelog.broker.decision import Outcome
from wakelog.broker.effects import Ask, InPool, Work, WorkKind
from wakelog.broker.error_response import LimitReached
from wakelog.broker.membership import Client
from wakelog.broker.state import BrokerState
from wakelog.network.errors import CallTimeout, RemotingError
from wakelog.network.request import Request
from wakelog.protocol.bodies import (
    GetConsumerStatusBody,
    MessageQueueForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
    decode_body,
    encode_body,
)
from wakelog.protocol.body_codec import MessageQueue
from wakelog.protocol.codes import (
    VERSION_3_0_7,
    VERSION_3_1_8,
    LanguageCode,
    RequestCode,
    ResponseCode,
)
from wakelog.protocol.command import RemotingCommand, answer, make_request
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.headers.clients import (
    ConsumerClientRequestHeader,
    GetConsumerStatusRequestHeader,
    ResetOffsetRequestHeader,
)
from wakelog.protocol.message_id import decode_message_id
from wakelog.protocol.signed_content import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE

CLIENT_SECONDS = 10.0
STATUS_SECONDS = 5.0
QUEUES_PER_STEP = 1_024
"""Some 0.5 ms."""

PUSHED_BYTES_MAX = 67_108_864
"""Of one reset, to all clients: 1,024 queues for 800 clients. They are kept until each was read."""

LAST_OFFSET = -1
"""The timestamp that stands for the end of each queue."""

_SIGNATURE_FIELDS = frozenset({ACCESS_KEY, SECURITY_TOKEN, SIGNATURE})


def reset_offset(state: BrokerState, request: Request[ResetOffsetRequestHeader]) -> Work:
    """Give each client of a group its offsets at a time (code 222)."""
    header = request.header
    config = state.topics.get(header.topic)
    if config is None:
        remark = (
            f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}"
        )
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
    committed = []
    for queue_id in range(config.write_queue_nums):
        committed.append(state.offsets.query(header.group, header.topic, queue_id))
        if committed[-1] < 0:
            remark = f"THe consumer group <{header.group}> not exist"
            return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
        if not len(committed) % QUEUES_PER_STEP:
            yield
    work = partial(_new_offsets, state, request, committed)
    body, pushed = yield InPool(work, WorkKind.SURVEY)
    return _push_offsets(state, request, body, pushed)


def get_consumer_status(
    state: BrokerState, request: Request[GetConsumerStatusRequestHeader]
) -> Outcome | Work:
    """Return the offsets of a group's clients (code 223)."""
    header = request.header
    group = state.consumers.get(header.group)
    if group is None:
        remark = f"No Any Consumer online in the consumer group: [{header.group}]"
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
    wanted = (header.client_addr or "").strip()
    clients = []
    for client in group.clients.values():
        if client.version < VERSION_3_0_7:
            return _too_old(request, client)
        if wanted in ("", client.client_id):
            clients.append(client)
    fields = to_ext_fields(GetConsumerStatusRequestHeader(topic=header.topic, group=header.group))
    return _ask_status(request, fields, clients)


def get_consumer_running_info(
    state: BrokerState, request: Request[ConsumerClientRequestHeader]
) -> Work:
    """Return what a client does (code 307)."""
    return _call_consumer(state, request, request.command.body)


def consume_message_directly(
    state: BrokerState, request: Request[ConsumerClientRequestHeader]
) -> Work:
    """Let a client consume one message (code 309)."""
    message_id = request.header.msg_id or ""
    _, physical_offset = decode_message_id(message_id)
    request.command.ext_fields["brokerName"] = state.config.broker_name
    record = yield InPool(partial(state.store.record_bytes, physical_offset))
    if record is None:
        remark = f"can not find message by the id, {message_id}"
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
    return (yield from _call_consumer(state, request, bytes(record)))


def _new_offsets(
    state: BrokerState, request: Request[ResetOffsetRequestHeader], committed: list[int]
) -> tuple[bytes, bytes]:
    """Return the body of the response, and that for the clients; may wait for the disk."""
    header, store = request.header, state.store
    topic, time_ms = header.topic, header.timestamp
    offsets = {}
    for queue_id, offset in enumerate(committed):
        if time_ms == LAST_OFFSET:
            at_time = store.max_queue_offset(topic, queue_id)
        else:
            at_time = store.offset_by_time(topic, queue_id, time_ms)
        at_time = max(at_time, 0)
        queue = MessageQueue(topic, state.config.broker_name, queue_id)
        offsets[queue] = at_time if header.is_force else min(at_time, offset)
    body = encode_body(ResetOffsetBody(offsets))
    if request.command.language not in (LanguageCode.CPP, LanguageCode.CPP.name):
        return body, body
    rows = [
        MessageQueueForC(queue.topic, queue.broker_name, queue.queue_id, offset)
        for queue, offset in offsets.items()
    ]
    return body, encode_body(ResetOffsetBodyForC(rows))


def _push_offsets(
    state: BrokerState,
    request: Request[ResetOffsetRequestHeader],
    body: bytes,
    pushed: bytes,
) -> Outcome:
    header = request.header
    group = state.consumers.get(header.group)
    if group is None:
        remark = (
            f"Consumer not online, so can not reset offset, Group: {header.group} "
            f"Topic: {header.topic} Timestamp: {header.timestamp}"
        )
        return request.refusal(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    pushed_bytes = len(pushed) * len(group.clients)
    if pushed_bytes > PUSHED_BYTES_MAX:
        raise LimitReached("bytes of offsets for all clients", PUSHED_BYTES_MAX)
    fields = to_ext_fields(header) | {"isForce": "false"}  # 4.9.3 does not pass it on
    for client in group.clients.values():
        if client.version < VERSION_3_0_7:
            return _too_old(request, client)
        state.push(client.channel.id, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, pushed)
    return request.success(body=body)


def _ask_status(
    request: Request[GetConsumerStatusRequestHeader],
    fields: dict[str, str],
    clients: list[Client],
) -> Work:
    """Ask one client after the other; a client that does not answer is left out."""
    found = GetConsumerStatusBody()
    for client in clients:
        question = make_request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields, opaque=0)
        try:
            response = yield Ask(client.channel.id, question, STATUS_SECONDS)
        except RemotingError:
            continue
        if response.code == ResponseCode.SUCCESS:
            try:
                body = decode_body(GetConsumerStatusBody, response.body)
            except RemoteProtocolError:
                body = GetConsumerStatusBody()
            found.consumer_table[client.client_id] = body.message_queue_table
    return request.success(body=encode_body(found))


def _call_consumer(
    state: BrokerState, request: Request[ConsumerClientRequestHeader], body: bytes
) -> Work:
    """Hand a request on to the client that it names."""
    group, client_id = request.header.consumer_group, request.header.client_id
    client = state.consumers.client(group, client_id or "")
    if client is None:
        shown_id = "null" if client_id is None else client_id
        remark = f"The Consumer <{group}> <{shown_id}> not online"
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
    if client.version < VERSION_3_1_8:
        remark = (
            f"The Consumer <{client_id}> Version <{client.version}> too low to finish, "
            "please upgrade it to V3_1_8_SNAPSHOT"
        )
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
    fields = {
        name: value
        for name, value in request.command.ext_fields.items()
        if name not in _SIGNATURE_FIELDS
    }
    question = make_request(request.command.code, fields, body, opaque=0)
    try:
        response = yield Ask(client.channel.id, question, CLIENT_SECONDS)
    except CallTimeout as error:
        remark = f"consumer <{group}> <{client_id}> Timeout: {error}"
        return request.refusal(ResponseCode.CONSUME_MSG_TIMEOUT, remark)
    except RemotingError as error:
        remark = f"invoke consumer <{group}> <{client_id}> Exception: {error}"
        return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
    return answer(
        request.command, response.code, response.remark, response.ext_fields, response.body
    )


def _too_old(
    request: Request[ResetOffsetRequestHeader] | Request[GetConsumerStatusRequestHeader],
    client: Client,
) -> RemotingCommand:
    remark = f"the client does not support this feature. version={client.version}"
    return request.refusal(ResponseCode.SYSTEM_ERROR, remark)
