"""Counters of messages in and out, and their samples."""

from typing import Any

import pytest

from wakelog.broker import broker_stats
from wakelog.broker.broker_stats import (
    DAY,
    HOUR,
    MINUTE,
    OTHERS,
    PERIODS,
    BrokerStats,
    StatsSnapshot,
)
from wakelog.telemetry.pieces import add_piece

NOW_MS = 1_700_000_000_000


def by_name(stats: BrokerStats) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for piece in stats.statistics().pieces():
        add_piece(found, piece)
    return found


def sample(stats: BrokerStats, period: int, number: int) -> None:
    """Take the sample of a period that is due so many periods after the start."""
    stats.sample(period, NOW_MS + number * PERIODS[period].period_ms)


def minute(stats: BrokerStats, name: str, key: str) -> StatsSnapshot:
    found = stats.snapshots(name, key)
    assert found is not None, (name, key)
    return found[MINUTE]


def test_messages_and_bytes_add_up_by_name() -> None:
    counters = BrokerStats()
    counters.count_put("T", 1, 100)
    counters.count_put("T", 32, 3_200)
    counters.count_get("T", "g", 2, 200)
    counters.count_send_back("T", "g")
    counters.count_send_back("T", "g")
    assert by_name(counters) == {
        "put_by_topic": {"T": (33, 3_300)},
        "get_by_topic_and_group": {"T": {"g": (2, 200)}},
        "send_back_by_topic_and_group": {"T": {"g": (2,)}},
    }
    counters.validate()


def test_names_without_end_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_stats, "NAMES_MAX", 1)
    counters = BrokerStats()
    for topic in ("a", "b", "c", "a"):
        counters.count_put(topic, 1, 10)
        counters.count_get(topic, "g", 1, 10)
        counters.count_send_back(topic, "g")
    statistics = by_name(counters)
    assert statistics["put_by_topic"] == {"a": (2, 20), OTHERS: (2, 20)}
    assert statistics["get_by_topic_and_group"] == {"a": {"g": (2, 20)}, OTHERS: {OTHERS: (2, 20)}}
    assert statistics["send_back_by_topic_and_group"] == {"a": {"g": (2,)}, OTHERS: {OTHERS: (2,)}}
    counters.validate()


def test_a_full_table_comes_in_pieces_of_how_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_stats, "PIECE_NAMES_MAX", 2)
    counters = BrokerStats()
    for number in range(5):
        counters.count_put(f"T{number}", 1, number)
        counters.count_get("T", f"g{number}", 1, 10)
    counted = counters.statistics()
    counters.count_put("T0", 1, 10)
    counters.count_put("T9", 1, 10)
    pieces = list(counted.pieces())
    sizes = [sum(map(len, each.values())) for each in pieces if "put_by_topic" in each]
    assert sizes == [2, 2, 1]
    gets = [each["get_by_topic_and_group"]["T"] for each in pieces[3:]]
    assert [len(each) for each in gets] == [2, 2, 1]
    found: dict[str, Any] = {}
    for piece in pieces:
        add_piece(found, piece)
    assert found == {
        "put_by_topic": {f"T{number}": (1, number) for number in range(5)},
        "get_by_topic_and_group": {"T": {f"g{number}": (1, 10) for number in range(5)}},
    }


def test_an_item_is_there_at_its_first_count_and_empty_until_its_first_sample() -> None:
    stats = BrokerStats("c")
    sample(stats, MINUTE, 1)
    assert stats.snapshots("TOPIC_PUT_NUMS", "T") is None
    stats.count_put("T", 1, 100)
    assert stats.snapshots("TOPIC_PUT_NUMS", "T") == (StatsSnapshot(),) * 3
    assert stats.snapshots("BROKER_PUT_NUMS", "c") == (StatsSnapshot(),) * 3


def test_a_young_item_begins_at_zero_one_period_before_its_first_sample() -> None:
    stats = BrokerStats()
    for number in range(3):
        sample(stats, MINUTE, number)
    stats.count_put("T", 30, 600)
    stats.count_put("T", 20, 400)
    sample(stats, MINUTE, 3)
    assert minute(stats, "TOPIC_PUT_NUMS", "T") == StatsSnapshot(50, 5.0, 25.0)
    assert minute(stats, "TOPIC_PUT_SIZE", "T") == StatsSnapshot(1_000, 100.0, 500.0)
    sample(stats, MINUTE, 4)
    assert minute(stats, "TOPIC_PUT_NUMS", "T") == StatsSnapshot(50, 2.5, 25.0)


@pytest.mark.parametrize("period", [MINUTE, HOUR, DAY])
def test_a_sum_is_between_the_first_and_the_last_sample_that_are_kept(period: int) -> None:
    period_ms, samples_max = PERIODS[period]
    stats = BrokerStats()
    for number in range(samples_max):
        stats.count_put("T", 10, 1)
        sample(stats, period, number)
    # The zero before the first sample has just left.
    seconds = (samples_max - 1) * period_ms / 1000
    amount = 10 * (samples_max - 1)
    found = stats.snapshots("TOPIC_PUT_NUMS", "T")
    assert found is not None
    assert found[period] == StatsSnapshot(amount, amount / seconds, 10.0)
    for number in range(samples_max, 2 * samples_max):
        sample(stats, period, number)
    found = stats.snapshots("TOPIC_PUT_NUMS", "T")
    assert found is not None
    assert found[period] == StatsSnapshot()


def test_a_clock_that_stood_still_gives_no_rate() -> None:
    stats = BrokerStats()
    stats.count_put("T", 10, 1)
    stats.sample(MINUTE, NOW_MS)
    for _ in range(10):
        stats.count_put("T", 10, 1)
        stats.sample(MINUTE, NOW_MS)
    assert minute(stats, "TOPIC_PUT_NUMS", "T") == StatsSnapshot(60, 0.0, 10.0)


def counted(*, by_queue: bool = True, lmq: bool = False) -> BrokerStats:
    """Return statistics with one of everything, sampled once."""
    stats = BrokerStats("c", by_queue=by_queue, lmq=lmq)
    stats.count_put("T", 3, 300)
    stats.count_put_again("%DLQ%g", 70)
    stats.count_get("T", "g", 2, 200, queue_id=5, latency_ms=40)
    stats.count_get("%LMQ%t", "%LMQ%g", 1, 100, queue_id=0, latency_ms=1)
    stats.count_send_back("a@b", "g")
    stats.count_delayed(2, 90)
    stats.count_delivered("T", 2, 80)
    sample(stats, MINUTE, 1)
    return stats


SUMS = [
    ("TOPIC_PUT_NUMS", "T", 4),
    ("TOPIC_PUT_SIZE", "T", 380),
    ("TOPIC_PUT_SIZE", "%DLQ%g", 70),
    ("GROUP_GET_NUMS", "T@g", 2),
    ("GROUP_GET_SIZE", "T@g", 200),
    ("GROUP_GET_NUMS", "SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER", 1),
    ("GROUP_GET_LATENCY", "5@T@g", 40),
    ("SNDBCK_PUT_NUMS", "a@b@g", 1),
    ("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@2", 1),
    ("QUEUE_PUT_SIZE", "SCHEDULE_TOPIC_XXXX@2", 90),
    ("QUEUE_GET_NUMS", "SCHEDULE_TOPIC_XXXX@2@SCHEDULE_CONSUMER", 1),
    ("QUEUE_GET_SIZE", "SCHEDULE_TOPIC_XXXX@2@SCHEDULE_CONSUMER", 80),
    ("BROKER_PUT_NUMS", "c", 4),
    ("BROKER_GET_NUMS", "c", 3),
]


@pytest.mark.parametrize(("name", "key", "amount"), SUMS)
def test_each_item_has_the_name_and_key_of_4_9_3(name: str, key: str, amount: int) -> None:
    assert minute(counted(), name, key).sum == amount


def test_the_broker_counts_no_calls() -> None:
    assert minute(counted(), "BROKER_PUT_NUMS", "c") == StatsSnapshot(4, 0.4, 0.0)


ABSENT = [
    ("TOPIC_PUT_NUMS", "absent"),
    ("TOPIC_PUT", "T"),
    ("TOPIC_PUT_TIMES", "T"),
    ("SNDBCK_PUT_SIZE", "a@b@g"),
    ("BROKER_PUT_NUMS", "other"),
    ("GROUP_GET_NUMS", "T"),
    ("GROUP_GET_LATENCY", "T@g"),
    ("QUEUE_PUT_NUMS", "T@x"),
    ("QUEUE_GET_NUMS", "T@x@g"),
    ("GROUP_GET_FROM_DISK_NUMS", "T@g"),
    ("COMMERCIAL_SEND_TIMES", "x"),
    ("", ""),
]


@pytest.mark.parametrize(("name", "key"), ABSENT)
def test_what_was_never_counted_is_absent(name: str, key: str) -> None:
    assert counted().snapshots(name, key) is None


def test_without_details_no_queue_is_counted() -> None:
    stats = counted(by_queue=False)
    assert minute(stats, "GROUP_GET_LATENCY", "T@g").sum == 40
    assert stats.snapshots("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@2") is None
    assert minute(stats, "TOPIC_PUT_NUMS", "T").sum == 4


def test_light_queues_are_counted_together() -> None:
    stats = counted(lmq=True)
    stats.count_send_back("%LMQ%t", "%LMQ%g")
    assert minute(stats, "GROUP_GET_NUMS", "%LMQ%@%LMQ%").sum == 1
    assert stats.get_tps("%LMQ%other", "%LMQ%any") == 0.1
    assert stats.snapshots("SNDBCK_PUT_NUMS", "%LMQ%@%LMQ%") is not None


def test_a_group_that_received_nothing_has_no_rate() -> None:
    assert counted().get_tps("T", "absent") == 0.0
    assert counted().get_tps("T", "g") == 0.2


def test_a_forgotten_topic_begins_again() -> None:
    stats = counted()
    stats.forget_topic("T")
    stats.validate()
    for name, key in (
        ("TOPIC_PUT_NUMS", "T"),
        ("GROUP_GET_NUMS", "T@g"),
        ("GROUP_GET_LATENCY", "5@T@g"),
    ):
        assert stats.snapshots(name, key) is None
    assert minute(stats, "BROKER_PUT_NUMS", "c").sum == 4
    stats.count_put("U", 1, 10)  # in the place of T
    assert minute(stats, "TOPIC_PUT_NUMS", "U") == StatsSnapshot()
    sample(stats, MINUTE, 2)
    assert minute(stats, "TOPIC_PUT_NUMS", "U") == StatsSnapshot(1, 0.1, 1.0)


def test_a_forgotten_group_begins_again() -> None:
    stats = counted()
    stats.forget_group("g")
    stats.validate()
    assert stats.snapshots("GROUP_GET_NUMS", "T@g") is None
    assert stats.snapshots("SNDBCK_PUT_NUMS", "a@b@g") is None
    assert minute(stats, "TOPIC_PUT_NUMS", "T").sum == 4
