"""Which names topics and groups may have, and those that RocketMQ itself uses.

The Java and Go clients apply the rules for topics to groups. Other clients have no check, and names
such as `com.example.orders` are usual there. So a group may be any printable ASCII that fits into a
path (%RETRY%group) and into a key of a file (topic@group). Only heartbeats and send-backs of a
group create a topic with such a name.

Source: org.apache.rocketmq.common.topic.TopicValidator, org.apache.rocketmq.client.Validators
(4.9.3), whose broker checks no groups.
"""

import re
from typing import Final

WAITING_FIELD: Final = "waitsForRestart"
"""The field of our responses to codes 26 and 319 with the keys that wait for a restart: a JSON
object with the values in use."""

AUTO_CREATE_TOPIC: Final = "TBW102"
"""The template of new topics: brokers that create topics on the first send have this one."""

RETRY_PREFIX: Final = "%RETRY%"
"""Before a group's name: the topic of the messages that it consumes again."""

DLQ_PREFIX: Final = "%DLQ%"
"""Before a group's name: the topic of the messages that it has given up."""

SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

OWN_GROUPS: Final = frozenset(
    {
        "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION", "CID_ONSAPI_PULL", "CID_ONS-HTTP-PROXY",
    }
)  # fmt: skip
"""Every broker has these from the start."""

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""Where name servers keep which brokers an ordered topic has."""

OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
TRANS_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"

NAME_LENGTH_MAX: Final = 127
"""The record stores the topic's length in one signed byte."""
GROUP_LENGTH_MAX: Final = 255
"""As the client's Validators."""

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)
_LEGAL_GROUP = re.compile(r"[!-.0-?A-~]+", re.ASCII)  # printable but for blank, "/" and "@"


def has_legal_characters(topic: str) -> bool:
    """Return whether a topic's name has only characters that 4.9.3 allows, and at least one."""
    return _LEGAL.fullmatch(topic) is not None


def is_legal_topic(topic: str) -> bool:
    """Return whether a new topic may have the name."""
    return len(topic) <= NAME_LENGTH_MAX and has_legal_characters(topic)


def is_legal_group(group: str) -> bool:
    """Return whether a group may have the name."""
    return len(group) <= GROUP_LENGTH_MAX and _LEGAL_GROUP.fullmatch(group) is not None


def is_topic(name: str) -> bool:
    """Return whether a topic may have the name: a legal one, or that of a group's own topic."""
    if not name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return is_legal_topic(name)
    return len(name) <= NAME_LENGTH_MAX and _LEGAL_GROUP.fullmatch(name) is not None


def reply_topic(cluster: str) -> str:
    """Return the topic of replies in request-reply."""
    return f"{cluster}_REPLY_TOPIC"


def is_own_group(group: str) -> bool:
    """Return whether RocketMQ itself uses a group."""
    return group in OWN_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)
