"""Names of topics and groups: the check of requests, the system's, and those made from others.

Every name in a request passes one of the checks here before it enters a table. Storage checks it
again before it makes a path of it.

Source: org.apache.rocketmq.common.topic.TopicValidator and MixAll (4.9.3).
"""

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    NAME_LENGTH_MAX,
    OFFSET_MOVED_EVENT,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TRACE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    has_legal_characters,
    is_legal_group,
    is_topic,
)

CLIENT_ID_LENGTH_MAX = 255  # 4.9.3's clients make `ip@pid#number@unit`

LMQ_PREFIX = "%LMQ%"

SYSTEM_TOPICS = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        TRANS_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    }
)

NO_SEND_TOPICS = frozenset(
    {SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC}
)
"""Topics that only the broker writes. 4.9.3 names the first; its successors refuse all of them."""

TRANS_GROUP = "CID_RMQ_SYS_TRANS"
"""The group under which the check of half messages commits its offsets."""

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)
"""The groups of every new broker."""

FAQ_HINT = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
"""4.9.3 appends it to the remarks of errors that its manual explains."""


def check_topic(topic: str) -> None:
    """Refuse a name for a new topic by the rules of TopicValidator.validateTopic.

    Raises: RemoteProtocolError with code 1 and 4.9.3's remark.
    """
    if not topic or topic.isspace():
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, "The specified topic is blank.")
    if not has_legal_characters(topic):
        remark = "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)
    if len(topic) > NAME_LENGTH_MAX:
        remark = "The specified topic is longer than topic max length."
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)


def check_any_topic(topic: str) -> None:
    """Refuse a name that no topic can have, retry and dead letter topics included.

    Raises: RemoteProtocolError with code 1 and 4.9.3's remark.
    """
    if not is_topic(topic):
        check_topic(topic)


def check_client_id(client_id: str) -> None:
    """Refuse a client id that no client makes. Raises: RemoteProtocolError with code 1."""
    if len(client_id) > CLIENT_ID_LENGTH_MAX:
        remark = f"the client id is longer than {CLIENT_ID_LENGTH_MAX} characters"
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)


def check_group(group: str) -> None:
    """Refuse a group name that cannot be part of a path or of a key.

    Raises: RemoteProtocolError with code 1.
    """
    if not group or group.isspace():
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, "The specified group is blank.")
    if not is_legal_group(group):
        raise RemoteProtocolError(
            ResponseCode.SYSTEM_ERROR,
            "The specified group is longer than 255 characters or contains illegal characters, "
            "allowing only printable ASCII without blanks, / and @",
        )


def is_lmq(name: str) -> bool:
    """Return whether a topic or group belongs to a light message queue."""
    return name.startswith(LMQ_PREFIX)


def retry_topic(group: str) -> str:
    """Return the topic of a group's failed messages."""
    return RETRY_PREFIX + group
