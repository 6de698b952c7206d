"""Traffic comes as columns, and is what the broker counted."""

from typing import Any

import pytest

from wakelog.broker import traffic_columns
from wakelog.broker.broker_stats import MINUTE, PERIODS, BrokerStats
from wakelog.broker.traffic_columns import column_pieces, join_pieces
from wakelog.telemetry.pieces import add_piece, encode_pieces

PERIOD_MS = PERIODS[MINUTE].period_ms


def counted(samples_count: int) -> BrokerStats:
    """Count some of each table between samples; a topic is forgotten, and one comes late."""
    stats = BrokerStats()
    for number in range(samples_count):
        for topic in ("a", "b", "gone") if number < 2 else ("a", "late"):
            stats.count_put(topic, number + 1, 100)
            stats.count_get(topic, "g", number + 2, 70)
            stats.count_get(topic, "h", 1, 10)
            stats.count_send_back(topic, "g")
        if number == 2:
            stats.forget_topic("gone")
        stats.sample(MINUTE, number * PERIOD_MS)
    stats.count_put("new", 5, 50)
    return stats


def direct(stats: BrokerStats) -> dict[str, Any]:
    """Return the values by name as the broker has them."""
    found: dict[str, Any] = {}
    for piece in stats.statistics().pieces():
        add_piece(found, {"traffic": piece})
    for piece in stats.minute().pieces():
        add_piece(found, {"minute": piece})
    return found


@pytest.mark.parametrize("names_max", [1, 2, 2_000])
@pytest.mark.parametrize("samples_count", [0, 1, 3, 9])
def test_what_arrives_is_what_was_counted(
    samples_count: int, names_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic_columns, "PIECE_NAMES_MAX", names_max)
    stats = counted(samples_count)
    found: dict[str, Any] = {}
    join_pieces(found, encode_pieces(column_pieces(stats.statistics(), stats.minute())))
    assert found == direct(stats)
    assert found["traffic"]["put_by_topic"]["new"] == (5, 50)


def test_without_the_minute_there_are_the_totals() -> None:
    stats = counted(9)
    found: dict[str, Any] = {"other": 1}
    join_pieces(found, encode_pieces(column_pieces(stats.statistics(), None)))
    assert found == {"other": 1, "traffic": direct(stats)["traffic"]}


def test_of_nothing_there_is_nothing() -> None:
    stats = BrokerStats()
    assert list(column_pieces(stats.statistics(), stats.minute())) == []
    found: dict[str, Any] = {}
    join_pieces(found, [])
    assert found == {}


def test_a_copy_is_shared_while_no_name_comes() -> None:
    stats = counted(1)
    slots = stats.statistics().gets.slots
    stats.count_get("a", "g", 1, 1)
    assert stats.minute().gets.slots is slots
    stats.count_get("a", "other", 1, 1)
    assert ("a", "other") in stats.statistics().gets.slots and ("a", "other") not in slots
    stats.forget_group("other")
    assert stats.statistics().gets.slots == slots
