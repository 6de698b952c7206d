"""Names of topics and groups: the legal ones, the system's, and those made from others.

Every name in a request passes one of the checks here before it enters a table. Storage checks it
again before it makes a path of it.

The Java and Go clients apply the rules for topics to groups. Other clients have no check, and names
such as `com.example.orders` are usual there. So a group may be any printable ASCII that fits into a
path (%RETRY%group) and into a key of a file (topic@group). Only heartbeats and send-backs of a
group create a topic with such a name.

Source: org.apache.rocketmq.common.topic.TopicValidator and MixAll (4.9.3), which checks no groups.
"""

import re

from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.headers.send import AUTO_CREATE_TOPIC

NAME_LENGTH_MAX = 127  # the record stores the topic's length in one signed byte
GROUP_LENGTH_MAX = 255  # as the client's Validators

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
TRANS_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"

SYSTEM_TOPICS = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        TRANS_HALF_TOPIC,
        "RMQ_SYS_TRACE_TOPIC",
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    }
)

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

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)
_LEGAL_GROUP = re.compile(r"[!-.0-?A-~]+", re.ASCII)  # printable but for blank, "/" and "@"


def check_topic(topic: str) -> None:
    """Refuse a name for a new topic by the rules of TopicValidator.validateTopic.

    Raises: RemoteProtocolError with code 1 and 4.9.3's remark.
    """
    if not topic or topic.isspace():
        raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, "The specified topic is blank.")
    if _LEGAL.fullmatch(topic) is None:
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


def is_legal_group(group: str) -> bool:
    """Return whether ``check_group`` accepts the name."""
    return 0 < len(group) <= GROUP_LENGTH_MAX and _LEGAL_GROUP.fullmatch(group) is not None


def is_legal_topic(topic: str) -> bool:
    """Return whether ``check_topic`` accepts the name."""
    return 0 < len(topic) <= NAME_LENGTH_MAX and _LEGAL.fullmatch(topic) is not None


def is_topic(name: str) -> bool:
    """Return whether a topic may have the name: a legal one, or that of a group's own topic."""
    if not name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return is_legal_topic(name)
    return len(name) <= NAME_LENGTH_MAX and _LEGAL_GROUP.fullmatch(name) is not None


def is_lmq(name: str) -> bool:
    """Return whether a topic or group belongs to a light message queue."""
    return name.startswith(LMQ_PREFIX)


def retry_topic(group: str) -> str:
    """Return the topic of a group's failed messages."""
    return RETRY_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Return the topic of replies in request-reply."""
    return f"{cluster}_REPLY_TOPIC"
