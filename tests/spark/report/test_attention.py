"""Sentences about what needs attention: each limit, from both sides."""

import pytest

from tests.spark.report.figures import BEGIN_MS, some_figures
from wakelog.spark.report.attention import NOTHING, attention
from wakelog.spark.report.figures import Figures, HotKey, TopicTotals, Waiting
from wakelog.spark.report.scales import (
    DAY_MS,
    MINUTE_MS,
    SECOND_MS,
    compact,
    duration,
    moment,
    size,
    step_ms,
)

TOPIC = some_figures().topics[0]


def topic(figures: Figures, **values: object) -> Figures:
    return figures._replace(topics=[TopicTotals(**{**TOPIC._asdict(), **values})])


def test_a_log_as_it_should_be() -> None:
    assert attention(some_figures()) == [NOTHING]


@pytest.mark.parametrize(
    ("minutes", "found"),
    [
        (4, NOTHING),
        (
            3,
            "Group billing is 7 messages behind in orders; "
            "the oldest was stored about 2026-01-01 00:03:00.",
        ),
    ],
)
def test_a_group_that_is_behind(minutes: int, found: str) -> None:
    waiting = [Waiting("billing", "orders", BEGIN_MS + minutes * MINUTE_MS, 7, 700)]
    assert attention(some_figures()._replace(waiting=waiting)) == [found]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"topic": "%DLQ%mail"}, "Group mail gave up 60 messages: its dead letters."),
        ({"p99_ms": 1500}, "The p99 latency of orders is 1.5 s."),
        ({"topic": "%RETRY%mail", "p99_ms": 15_000}, NOTHING),
        ({"p50_ms": None, "p99_ms": None, "max_ms": None}, NOTHING),
        ({"p50_ms": -2000}, "The clocks of producers of orders are ahead of the broker's by 2 s."),
    ],
)
def test_a_topic(values: dict[str, object], found: str) -> None:
    assert attention(topic(some_figures(), **values)) == [found]


@pytest.mark.parametrize("count", [99, 100])
def test_a_hot_key(count: int) -> None:
    figures = some_figures()._replace(keys=[HotKey("orders", "k1", count, 100, 0.5)])
    said = "Key k1 is in 50% of the messages of orders." if count == 100 else NOTHING
    assert attention(figures) == [said]


MIDNIGHT_MS = 1_767_225_600_000  # 2026-01-01


def test_a_step_covers_a_span_with_few() -> None:
    assert step_ms(1, 100) == SECOND_MS
    assert step_ms(100 * SECOND_MS, 100) == SECOND_MS
    assert step_ms(100 * SECOND_MS + 1, 100) == 2 * SECOND_MS
    assert step_ms(1000 * 360 * DAY_MS, 100) * 100 >= 1000 * 360 * DAY_MS


def test_numbers_are_short() -> None:
    assert [compact(x) for x in (0, 0.5, 999, 1500, 2_345_678)] == [
        "0",
        "0.5",
        "999",
        "1.5k",
        "2.35M",
    ]
    assert [size(x) for x in (12, 1_500_000)] == ["12 B", "1.5 MB"]
    assert [duration(x) for x in (-3, 12, 1500, 90_000, 2 * DAY_MS)] == [
        "-3 ms", "12 ms", "1.5 s", "1.5 min", "2 d",
    ]  # fmt: skip
    assert duration(None) == "-"
    assert moment(MIDNIGHT_MS) == "2026-01-01 00:00:00"
