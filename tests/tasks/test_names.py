"""Names of queues become topics that RocketMQ accepts, and no two of them the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.protocol.names import is_legal_topic
from wakelog.tasks.names import (
    LENGTH_MAX,
    group_of_binding,
    topic_of_exchange,
    topic_of_queue,
)

LONG = "q" * 200


@pytest.mark.parametrize(
    ("queue", "topic"),
    [
        ("celery", "kombu-celery"),
        ("mail.out", "kombu-mail_x2Eout"),
        ("celery@host.celery.pidbox", "kombu-celery_x40host_x2Ecelery_x2Epidbox"),
        ("a_b-C9", "kombu-a_b-C9"),
        ("a_x2Eb", "kombu-a_x5Fx2Eb"),
        ("%DLQ%x", "kombu-_x25DLQ_x25x"),
        ("é", "kombu-_xC3_xA9"),
    ],
)
def test_a_queue_has_a_topic_that_a_person_can_read(queue: str, topic: str) -> None:
    assert topic_of_queue("kombu-", queue) == topic


@pytest.mark.drawn
@given(st.lists(st.text("a.x_X2E5Fxby-é", max_size=12), min_size=2, max_size=8, unique=True))
def test_no_two_names_share_a_topic(names: list[str]) -> None:
    topics = {topic_of_queue("kombu-", name) for name in names}
    topics |= {topic_of_exchange("kombu-", name) for name in names}
    topics |= {group_of_binding("kombu-", name, "e") for name in names}
    assert len(topics) == 3 * len(names)
    assert all(map(is_legal_topic, topics))


def test_a_long_name_ends_with_a_hash_of_all_of_it() -> None:
    first, second = topic_of_queue("kombu-", LONG), topic_of_queue("kombu-", LONG + "q")
    assert first != second
    assert len(first) == len(second) == LENGTH_MAX
    assert is_legal_topic(first)
