"""Names of topics and groups."""

from collections.abc import Callable

import pytest

from wakelog.broker import names
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.names import is_legal_group, is_legal_topic, is_topic, reply_topic

ILLEGAL = "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
LONG = "The specified topic is longer than topic max length."

# TopicValidator.validateTopic (4.9.3): name, remark or None.
TOPICS = [
    ("T", None),
    ("%RETRY%g", None),
    ("ns%topic|x-1_2", None),
    ("t" * 127, None),
    ("t" * 128, LONG),
    ("", "The specified topic is blank."),
    ("  \t", "The specified topic is blank."),
    ("../../etc/passwd", ILLEGAL),
    ("a/b", ILLEGAL),
    ("a.b", ILLEGAL),
    ("a\x00", ILLEGAL),
    ("a@b", ILLEGAL),
    ("a\n", ILLEGAL),
    ("Ünicode", ILLEGAL),
    ("a\u0660", ILLEGAL),
]


@pytest.mark.parametrize(("topic", "remark"), TOPICS)
def test_a_topic_is_legal_or_refused_in_upstreams_words(topic: str, remark: str | None) -> None:
    assert is_legal_topic(topic) is (remark is None)
    if remark is None:
        names.check_topic(topic)
        return
    with pytest.raises(RemoteProtocolError) as refusal:
        names.check_topic(topic)
    assert (refusal.value.code, refusal.value.remark) == (ResponseCode.SYSTEM_ERROR, remark)


@pytest.mark.parametrize(
    ("group", "legal"),
    [
        ("g", True),
        ("g" * 255, True),
        ("g" * 256, False),
        ("", False),
        ("com.example:orders#1", True),
        ("a b", False),
        ("x/y", False),
        ("x@y", False),
        ("a\n", False),
        ("Ünicode", False),
    ],
)
def test_a_group_may_be_longer_than_a_topic_and_hold_more(group: str, legal: bool) -> None:
    assert is_legal_group(group) is legal
    if legal:
        names.check_group(group)
    else:
        with pytest.raises(RemoteProtocolError):
            names.check_group(group)


@pytest.mark.parametrize(
    ("topic", "legal"),
    [
        ("T", True),
        ("a.b", False),
        ("%RETRY%a.b", True),
        ("%DLQ%a.b", True),
        ("%RETRY%", True),
        ("%RETRY%" + "g" * 120, True),
        ("%RETRY%" + "g" * 121, False),
        ("%RETRY%a/b", False),
        ("%RETRY%a@b", False),
    ],
)
def test_the_topics_of_a_group_may_hold_what_its_name_does(topic: str, legal: bool) -> None:
    assert is_topic(topic) is legal
    if legal:
        names.check_any_topic(topic)
    else:
        with pytest.raises(RemoteProtocolError):
            names.check_any_topic(topic)


@pytest.mark.parametrize(
    ("derive", "name", "derived"),
    [
        (names.retry_topic, "g", "%RETRY%g"),
        (reply_topic, "DefaultCluster", "DefaultCluster_REPLY_TOPIC"),
    ],
)
def test_names_derive_from_groups_and_clusters(
    derive: Callable[[str], str], name: str, derived: str
) -> None:
    assert derive(name) == derived


def test_light_queues_have_a_prefix() -> None:
    assert names.is_lmq("%LMQ%123")
    assert not names.is_lmq("LMQ%123")
