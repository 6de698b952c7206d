"""Figures as a small log would give them, for what draws them."""

from wakelog.spark.report.figures import (
    OTHERS,
    SIZE_BITS,
    Figures,
    HotKey,
    Interval,
    Sums,
    TopicTotals,
    Waiting,
)
from wakelog.spark.report.scales import MINUTE_MS

BEGIN_MS = 1_767_225_600_000  # 2026-01-01 00:00:00

NOTHING = Figures(1000, [], Sums(0, 0, 0, 0, 0), [], [], {}, [])


def some_figures() -> Figures:
    """Return two topics, of which one is called as markup is, and eleven smaller ones."""
    last_ms = BEGIN_MS + 9 * MINUTE_MS
    sizes = tuple(60 if bits == 8 else 0 for bits in SIZE_BITS)
    topics = [
        TopicTotals(name, 60, 60 << 8, BEGIN_MS, last_ms, 2, 40, 900, sizes)
        for name in ("orders", "<b>bold</b>")
    ]
    intervals = [
        Interval(name, BEGIN_MS + minute * MINUTE_MS, 30, 30 << 8, 2, 40 + minute, 900)
        for name in ("orders", "<b>bold</b>", OTHERS)
        for minute in (0, 1, 9)
    ]
    keys = [HotKey("orders", "k\x00&1", 30, 30 << 8, 0.5), HotKey("orders", "k2", 1, 256, 1 / 60)]
    groups = {"billing": ["orders"], "mail": ["<b>bold</b>", "orders"]}
    waiting = [Waiting("billing", "orders", last_ms, 7, 7 << 8)]
    sums = Sums(13, 1234, 1234 << 8, BEGIN_MS, last_ms)
    return Figures(MINUTE_MS, topics, sums, intervals, keys, groups, waiting)
