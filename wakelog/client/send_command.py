"""The request that sends messages, and what the broker's response says of them.

Source: org.apache.rocketmq.client.impl.MQClientAPIImpl#sendMessage, processSendResponse (4.9.3).
"""

import time
from functools import lru_cache
from typing import Final, NamedTuple

from wakelog.client.errors import ClientError, NotAcknowledged, describe, refused, unanswered
from wakelog.client.messages import SendRequest
from wakelog.client.route import NEW_TOPIC_QUEUES, QueueAt, Routes
from wakelog.network.errors import RemotingError
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.ext_fields import read_header, to_ext_fields
from wakelog.protocol.headers.send import (
    V2_LETTERS,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from wakelog.protocol.names import AUTO_CREATE_TOPIC
from wakelog.protocol.properties import MSG_REGION, TRACE_ON

DISK_FULL: Final = "the broker's disk is full"
"""What a remark of wakelog ends with; those of 4.9.3 list it among other reasons."""
FIELDS_REMEMBERED_MAX: Final = 1_024
"""Queues whose headers are not put together again."""

_SYS_FLAG, _BORN_TIMESTAMP, _FLAG, _PROPERTIES = (
    V2_LETTERS[name] for name in ("sys_flag", "born_timestamp", "flag", "properties")
)

_SEND, _SEND_BATCH, _SEND_REPLY = (
    int(code)
    for code in (
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    )
)

_REMEDIES: Final = {
    int(ResponseCode.MESSAGE_ILLEGAL): (
        "The broker's maxMessageSize, 4 MiB by default, limits the body together with the topic "
        "and the properties"
    ),
}


class Stored(NamedTuple):
    """Where a broker stored the first message of a request.

    message_id: of the place in the log; those of a batch are joined by commas.
    region: "" if the broker wants no trace.
    """

    queue: QueueAt
    queue_offset: int
    message_id: str
    transaction_id: str = ""
    region: str = ""


def send_command(request: SendRequest, queue: QueueAt, group: str) -> RemotingCommand:
    """Return what asks the broker of a queue to store the messages of a request there."""
    is_batch = len(request.messages) > 1
    fields = _common_fields(group, queue.topic, queue.queue_id, is_batch).copy()
    fields[_BORN_TIMESTAMP] = str(time.time_ns() // 1_000_000)
    if is_batch:
        fields[_PROPERTIES] = request.properties
        return RemotingCommand(_SEND_BATCH, ext_fields=fields, body=request.body)
    _, body, fields[_PROPERTIES], flag, _, _, _, sys_flag, is_reply, _ = request.messages[0]
    if sys_flag:
        fields[_SYS_FLAG] = str(sys_flag)
    if flag:
        fields[_FLAG] = str(flag)
    return RemotingCommand(_SEND_REPLY if is_reply else _SEND, ext_fields=fields, body=body)


@lru_cache(maxsize=FIELDS_REMEMBERED_MAX)
def _common_fields(group: str, topic: str, queue_id: int, is_batch: bool) -> dict[str, str]:
    """Return the header of requests to one queue; the caller writes what is a message's own."""
    header = SendMessageRequestHeaderV2(
        producer_group=group,
        topic=topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=NEW_TOPIC_QUEUES,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties="",
        reconsume_times=0,
        batch=is_batch,
    )
    return to_ext_fields(header)


def unreachable(queue: QueueAt, error: RemotingError) -> ClientError:
    """Return the error for a request that had no answer."""
    return unanswered(f"{queue.broker} at {error.address}", error, broker=queue.broker)


def read_response(queue: QueueAt, response: RemotingCommand, routes: Routes) -> Stored:
    """Return where the messages are. Raises: ClientError, with the code of a broker that refused.

    NotAcknowledged if the response does not say where they are: another attempt would store them
    twice.
    """
    if response.code == ResponseCode.SUCCESS:
        return _read_stored(queue, response)
    cause = f"{queue.broker} at {queue.address} answered {describe(response)}"
    failed = refused(queue.broker, cause, response, _REMEDIES)
    if failed.remark.endswith(DISK_FULL) and not routes.has_replicas(queue):
        failed.passes = False  # no other broker will lead that has space
    raise failed


def _read_stored(queue: QueueAt, response: RemotingCommand) -> Stored:
    """Read where the message is. Raises: NotAcknowledged if the response does not say that."""
    try:
        found = read_header(SendMessageResponseHeader, response.ext_fields)
    except ProtocolError as error:
        raise NotAcknowledged(
            f"{queue.broker} at {queue.address} acknowledged a message without its place: {error}",
            "Check that a RocketMQ 4.x broker listens there",
            broker=queue.broker,
        ) from error
    fields = response.ext_fields
    return Stored(
        queue if queue.queue_id == found.queue_id else queue._replace(queue_id=found.queue_id),
        found.queue_offset,
        found.msg_id,
        found.transaction_id or "",
        fields.get(MSG_REGION, "") if fields.get(TRACE_ON) != "false" else "",
    )
