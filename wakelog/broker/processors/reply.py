"""Codes 324 and 325: a consumer replies to the client whose request it has consumed.

The property REPLY_TO_CLIENT names that client. The broker pushes the reply to its connection (326),
waits for its word, and then stores the reply if storeReplyMessageEnable says so. The code of the
response is that of the push: a reply that was stored but not received is code 1, with the id that
it was stored under. The response to a stored reply waits as that to a send, but a wait in vain
leaves its code. As in 4.9.3 a stored reply has the properties as they came and no flag that
says that its body is compressed.

Source: org.apache.rocketmq.broker.processor.ReplyMessageProcessor (4.9.3).
"""

from collections.abc import Generator
from contextlib import suppress

from wakelog.broker.decision import Outcome
from wakelog.broker.effects import Ask, Work
from wakelog.broker.processors.send import refuse_send, trace_fields
from wakelog.broker.processors.send_check import check_send, choose_queue
from wakelog.broker.state import BrokerState
from wakelog.network.driver import NOW
from wakelog.network.errors import RemotingError
from wakelog.network.request import Request
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand, answer, make_request
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.ext_fields import to_ext_fields
from wakelog.protocol.headers.send import ReplyMessageRequestHeader, SendHeader
from wakelog.protocol.message_id import create_message_id
from wakelog.protocol.properties import (
    PUSH_REPLY_TIME,
    REPLY_TO_CLIENT,
    WAIT,
    decode_properties,
    encode_properties,
)
from wakelog.storage.log.append import MessageDraft, PutStatus

CLIENT_SECONDS = 10.0


def send_reply(state: BrokerState, request: Request[SendHeader]) -> Work:
    """Push a reply to the client that waits for it, and store it."""
    header = request.header
    try:
        topic_config = check_send(state, request)
        queue_id = header.queue_id
        if queue_id < 0:
            queue_id = choose_queue(state, topic_config)
    except RemoteProtocolError as error:
        return refuse_send(state, request, error)
    failure = yield from _push_to_client(state, request)
    return _store_reply(state, request, queue_id, failure, (yield NOW))


def _push_to_client(
    state: BrokerState, request: Request[SendHeader]
) -> Generator[Ask, RemotingCommand, str]:
    """Push a reply to the client that its properties name; return why it has none, "" if it has."""
    properties = decode_properties(request.header.properties)
    client_id = properties.get(REPLY_TO_CLIENT)
    if client_id is None:
        return f"reply message properties[{REPLY_TO_CLIENT}] is null"
    client = state.producers.find(client_id)
    if client is None:
        return f"push reply message fail, channel of <{client_id}> not found."
    properties[PUSH_REPLY_TIME] = str(request.now_ms)
    command = _push(state, request, encode_properties(properties))
    with suppress(RemotingError):
        response = yield Ask(client.channel.id, command, CLIENT_SECONDS)
        if response.code == ResponseCode.SUCCESS:
            return ""
    return f"push reply message to {client_id}fail."


def _push(state: BrokerState, request: Request[SendHeader], properties: str) -> RemotingCommand:
    header, channel = request.header, request.channel
    host, port = state.store_host
    pushed = ReplyMessageRequestHeader(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        properties=properties,
        reconsume_times=header.reconsume_times,
        unit_mode=header.unit_mode,
        born_host=f"/{channel.remote_host}:{channel.remote_port}",
        store_host=f"/{host}:{port}",
        store_timestamp=request.now_ms,
    )
    code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    return make_request(code, to_ext_fields(pushed), request.command.body, opaque=0)


def _store_reply(
    state: BrokerState, request: Request[SendHeader], queue_id: int, failure: str, now_ms: int
) -> Outcome:
    """Respond with the outcome of the push; failure: its remark, empty if the client has it."""
    header = request.header
    response = answer(request.command, ResponseCode.SUCCESS, None, trace_fields(state))
    if failure:
        response.code, response.remark = ResponseCode.SYSTEM_ERROR, failure
    else:
        response.ext_fields |= {"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"}
    if not state.config.store_reply_message_enable:
        return response
    draft = MessageDraft(
        topic=header.topic,
        queue_id=queue_id,
        body=request.command.body,
        properties_text=header.properties or "",
        flag=header.flag,
        born_timestamp_ms=header.born_timestamp,
        born_host=(request.channel.remote_host, request.channel.remote_port),
        store_host=state.store_host,
        reconsume_times=header.reconsume_times or 0,
    )
    result = state.store.put_message(draft, now_ms)
    if result.status is not PutStatus.PUT_OK:
        return response  # 4.9.3 writes a line: the client has the reply, or the remark says why not
    state.traffic.count_put(header.topic, 1, result.size_bytes)
    response.ext_fields |= {
        "msgId": create_message_id(*state.store_host, result.physical_offset),
        "queueId": str(queue_id),
        "queueOffset": str(result.queue_offset),
    }
    wait = decode_properties(header.properties).get(WAIT)
    end = result.physical_offset_end
    return state.when_kept(response, end, now_ms, wait, keeps_code=True)
