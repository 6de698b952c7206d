"""Histogram: counts of durations by upper bound, cheap enough for the path of every message.

prometheus-client's own Histogram takes a lock for each observation and lives in a registry, and a
core has neither.

Invariants:
    - ``bounds_seconds`` strictly increase; ``len(counts) == len(bounds_seconds) + 1``: the last
      count is of observations above every bound.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import TypedDict

LATENCY_BOUNDS_SECONDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
)  # fmt: skip
"""From a page of ``fdatasync`` (0.12 ms) to syncFlushTimeout (5 s)."""


class HistogramStatistics(TypedDict):
    """What travels: builtins only, so that actors can return it."""

    bounds_seconds: list[float]
    counts: list[int]
    sum_seconds: float


class Histogram:
    """Durations counted by upper bound."""

    __slots__ = ("_bounds_seconds", "_counts", "_sum_seconds")

    def __init__(self, bounds_seconds: Sequence[float] = LATENCY_BOUNDS_SECONDS) -> None:
        """Start with no observation; ``bounds_seconds`` strictly increase."""
        assert all(low < high for low, high in pairwise(bounds_seconds))
        self._bounds_seconds = tuple(bounds_seconds)
        self._counts = [0] * (len(self._bounds_seconds) + 1)
        self._sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration; a bound includes its own value, as Prometheus' ``le`` does."""
        self._counts[bisect_left(self._bounds_seconds, seconds)] += 1
        self._sum_seconds += seconds

    def statistics(self) -> HistogramStatistics:
        """Return a copy of the counts, not cumulated."""
        return HistogramStatistics(
            bounds_seconds=list(self._bounds_seconds),
            counts=self._counts.copy(),
            sum_seconds=self._sum_seconds,
        )
