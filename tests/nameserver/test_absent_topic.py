"""The remark of code 17: 4.9.3's beginning and end, and the cause between them."""

import pytest

from wakelog.nameserver import absent_topic
from wakelog.nameserver.absent_topic import absent_topic_remark, nearest_name

KNOWN = ["TopicTest", "order_events", "%RETRY%group", "orders"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("topictest", "TopicTest"),
        ("TopicTset", "TopicTest"),
        ("TopicTest1", "TopicTest"),
        ("order-events", "order_events"),
        ("Orders", "orders"),
        ("%RETRY%grup", "%RETRY%group"),
        ("%RETRY%other", None),
        ("payments", None),
        ("", None),
    ],
)
def test_the_nearest_name(name: str, nearest: str | None) -> None:
    assert nearest_name(name, KNOWN) == nearest


def test_a_bounded_number_of_names_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absent_topic, "NAMES_CHECKED_MAX", 3)
    assert nearest_name("order", [*KNOWN, "order"]) is None
    monkeypatch.setattr(absent_topic, "NAMES_CHECKED_MAX", 4)
    assert nearest_name("order", [*KNOWN, "order"]) == "orders"


@pytest.mark.parametrize(
    ("topics", "broker_count", "cause"),
    [
        ([], 0, ", no broker is registered here"),
        (["U"], 2, ", none of the brokers (2) has it"),
        (["t"], 2, ", none of the brokers (2) has it, the nearest name is t"),
    ],
)
def test_the_cause_stands_between_the_words_of_4_9_3(
    topics: list[str], broker_count: int, cause: str
) -> None:
    assert absent_topic_remark("T", topics, broker_count=broker_count) == (
        f"No topic route info in name server for the topic: T{cause}"
        "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
    )
