"""Rates and midnight totals of a store."""

from datetime import datetime

import pytest

from wakelog.broker.store_stats import (
    DISTRIBUTION_MS,
    PUT_TIMES_COUNT,
    StoreStats,
    StoreTotals,
)

NOON_MS = int(datetime(2026, 11, 23, 12).timestamp()) * 1000


def never() -> list[int]:
    return [0] * PUT_TIMES_COUNT


def sampled(count: int) -> StoreStats:
    """Return statistics after so many seconds, each with 2 puts, 1 hit, 3 misses, 4 messages."""
    stats = StoreStats(NOON_MS)
    for second in range(1, count + 1):
        totals = StoreTotals(2 * second, second, 3 * second, 4 * second)
        stats.sample(NOON_MS + second * 1000, totals, never)
    return stats


def test_a_rate_that_is_not_known_yet_is_empty() -> None:
    """As in 4.9.3; only the sum of hits and misses is a number from the start."""
    assert StoreStats(NOON_MS).rates() == {
        "putTps": "  ",
        "getFoundTps": "  ",
        "getMissTps": "  ",
        "getTransferedTps": "  ",
        "getTotalTps": "0.0 0.0 0.0",
    }
    assert sampled(10).rates()["putTps"] == "  "
    assert sampled(11).rates()["putTps"] == "2.0  "
    assert sampled(11).rates()["getTotalTps"] == "4.0 0.0 0.0"


def test_the_rates_are_of_ten_seconds_a_minute_and_ten_minutes() -> None:
    assert sampled(700).rates() == {
        "putTps": "2.0 2.0 2.0",
        "getFoundTps": "1.0 1.0 1.0",
        "getMissTps": "3.0 3.0 3.0",
        "getTransferedTps": "4.0 4.0 4.0",
        "getTotalTps": "4.0 4.0 4.0",
    }


def test_a_clock_that_was_set_back_gives_no_rate() -> None:
    stats = StoreStats(NOON_MS)
    for second in range(11):
        stats.sample(NOON_MS - second * 1000, StoreTotals(second), never)
    assert stats.rates()["putTps"] == "0.0  "


def test_the_times_of_puts_are_those_of_the_last_full_minute() -> None:
    stats = StoreStats(NOON_MS)
    assert stats.put_times_text() == (
        "[<=0ms]:0 [0~10ms]:0 [10~50ms]:0 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 "
        "[1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0 "
    )
    counts = never()
    for minute in (1, 2):
        counts[0] += 5
        counts[12] += minute
        stats.sample(NOON_MS + minute * 60_000 - 1, StoreTotals(), never)
        stats.sample(NOON_MS + minute * 60_000, StoreTotals(), lambda: counts)
        assert stats.put_times_text().startswith("[<=0ms]:5 [0~10ms]:0 ")
        assert stats.put_times_text().endswith(f"[10s~]:{minute} ")


def test_the_totals_of_midnight_move_on_with_the_local_day() -> None:
    stats = StoreStats(NOON_MS)
    days = [(hour, StoreTotals(put_count=hour)) for hour in (1, 11, 13, 20, 37)]
    seen = []
    for hour, totals in days:
        stats.sample(NOON_MS + hour * 3_600_000, totals, never)
        seen.append((stats.yesterday_morning.put_count, stats.today_morning.put_count))
    assert seen == [(0, 0), (0, 0), (0, 13), (0, 13), (13, 37)]


@pytest.mark.parametrize(
    ("later_ms", "is_read"),
    [(-1, True), (0, False), (1, False), (DISTRIBUTION_MS - 1, False), (DISTRIBUTION_MS, True)],
)
def test_times_of_puts_are_read_again_after_so_long_or_when_the_clock_is_set_back(
    later_ms: int, *, is_read: bool
) -> None:
    stats, reads = StoreStats(NOON_MS), list[int]()

    def put_times() -> list[int]:
        reads.append(0)
        return never()

    begin_ms = NOON_MS + DISTRIBUTION_MS
    stats.sample(begin_ms, StoreTotals(0, 0, 0, 0), put_times)
    assert len(reads) == 1
    stats.sample(begin_ms + later_ms, StoreTotals(0, 0, 0, 0), put_times)
    assert len(reads) == 1 + is_read
