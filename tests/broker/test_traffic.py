"""Counters of messages in and out."""

import msgspec
import pytest

from wakelog.broker import traffic
from wakelog.broker.traffic import OTHERS, Traffic


def test_messages_and_bytes_add_up_by_name() -> None:
    counters = Traffic()
    counters.count_put("T", 1, 100)
    counters.count_put("T", 32, 3_200)
    counters.count_get("T", "g", 2, 200)
    counters.count_send_back("T", "g")
    counters.count_send_back("T", "g")
    assert counters.statistics() == {
        "put_by_topic": {"T": (33, 3_300)},
        "get_by_topic_and_group": {"T": {"g": (2, 200)}},
        "send_back_by_topic_and_group": {"T": {"g": 2}},
    }


def test_names_without_end_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "NAMES_MAX", 1)
    counters = Traffic()
    for topic in ("a", "b", "c", "a"):
        counters.count_put(topic, 1, 10)
        counters.count_get(topic, "g", 1, 10)
        counters.count_send_back(topic, "g")
    statistics = counters.statistics()
    assert statistics["put_by_topic"] == {"a": (2, 20), OTHERS: (2, 20)}
    assert statistics["get_by_topic_and_group"] == {"a": {"g": (2, 20)}, OTHERS: {OTHERS: (2, 20)}}
    assert statistics["send_back_by_topic_and_group"] == {"a": {"g": 2}, OTHERS: {OTHERS: 2}}


def test_the_counters_travel_as_builtins() -> None:
    counters = Traffic()
    counters.count_put("T", 1, 10)
    counters.count_get("T", "g", 1, 10)
    counters.count_send_back("T", "g")
    assert msgspec.to_builtins(counters.statistics()) == {
        "put_by_topic": {"T": (1, 10)},
        "get_by_topic_and_group": {"T": {"g": (1, 10)}},
        "send_back_by_topic_and_group": {"T": {"g": 1}},
    }
