"""Headers of sends and of messages that a consumer sends back."""

from typing import Final

from wakelog.protocol.ext_fields import Header, Int32, Int64

V2_LETTERS: Final = {
    "producer_group": "a",
    "topic": "b",
    "default_topic": "c",
    "default_topic_queue_nums": "d",
    "queue_id": "e",
    "sys_flag": "f",
    "born_timestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsume_times": "j",
    "unit_mode": "k",
    "max_reconsume_times": "l",
    "batch": "m",
}
"""SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE name their fields by letter to save bytes."""


class SendMessageRequestHeader(Header, frozen=True, kw_only=True):
    """10: a send with long names."""

    producer_group: str = ""
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: Int32 | None = None
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    batch: bool = False
    max_reconsume_times: Int32 | None = None


class SendMessageRequestHeaderV2(Header, frozen=True, kw_only=True, rename=V2_LETTERS):
    """310, 320: a send with letters. It has the attributes of a send with long names."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    batch: bool = False
    max_reconsume_times: Int32 | None = None


class SendReplyRequestHeader(SendMessageRequestHeader, frozen=True, kw_only=True):
    """324: a reply with long names; its flag is read from nowhere."""

    sys_flag: Int32 = 0


class SendReplyRequestHeaderV2(
    SendMessageRequestHeaderV2, frozen=True, kw_only=True, rename=V2_LETTERS
):
    """325: a reply with letters, which needs less than a send."""

    producer_group: str = ""
    default_topic: str = ""
    default_topic_queue_nums: Int32 = 0
    sys_flag: Int32 = 0


SendHeader = SendMessageRequestHeader | SendMessageRequestHeaderV2


class SendMessageResponseHeader(Header, frozen=True, kw_only=True):
    """Response to every send."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None


class ReplyMessageRequestHeader(Header, frozen=True, kw_only=True):
    """326: the reply that a broker pushes to the client that asked."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32 | None
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Int64


class ConsumerSendMsgBackRequestHeader(Header, frozen=True, kw_only=True):
    """36: a message to consume again later."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
