"""The native metrics: every name, label and HELP text, and where its value stands in statistics().

``METRICS`` is the only place where a name is declared. A row's ``path`` walks through what the
actors' ``statistics()`` return, as builtins: ``("broker", "server", "lanes", "{lane}",
"depth_count")`` makes one series for each lane, the key bound to the label ``lane``. A path that
is not there yields nothing, so a row may describe an actor that is not running.

Names follow prometheus.io/docs/practices/naming: seconds and bytes, ``_total`` on counters only.

Invariants:
    - a family never has more than ``SERIES_MAX`` series; what is left out is counted in
      ``rocketmq_metrics_dropped_series_total``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

SERIES_MAX = 10_000
"""Series of one family in one scrape; Prometheus' own sample_limit examples are of this size."""

DROPPED_SERIES = "rocketmq_metrics_dropped_series"


class Kind(StrEnum):
    """What Prometheus calls the type."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class MetricSpec(msgspec.Struct, frozen=True):
    """One row: a family and where its values stand.

    ``scale`` turns the core's unit into the metric's, 0.001 for milliseconds into seconds.
    """

    name: str
    kind: Kind
    help: str
    path: tuple[str, ...]
    scale: float = 1.0

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, in the order of the path."""
        return tuple(part[1:-1] for part in self.path if part.startswith("{"))

    @property
    def exposed_name(self) -> str:
        """Name as a query writes it."""
        suffix = {Kind.COUNTER: "_total", Kind.INFO: "_info"}.get(self.kind, "")
        return self.name + suffix


class Series(msgspec.Struct, frozen=True):
    """One value found: the labels' values and what stood there."""

    label_values: tuple[str, ...]
    value: Any


def find_series(path: tuple[str, ...], values: Any) -> Iterator[Series]:
    """Walk one path through builtins; parts in braces match every key of a mapping."""
    if not path:
        if values is not None:
            yield Series((), values)
        return
    if not isinstance(values, Mapping):
        return
    part, rest = path[0], path[1:]
    if not part.startswith("{"):
        if part in values:
            yield from find_series(rest, values[part])
        return
    for key in values:
        for found in find_series(rest, values[key]):
            yield Series((str(key), *found.label_values), found.value)


def _gauge(spec: MetricSpec, series: Iterable[Series]) -> Metric:
    family = GaugeMetricFamily(spec.name, spec.help, labels=spec.labels)
    for one in series:
        family.add_metric(one.label_values, float(one.value) * spec.scale)
    return family


def _counter(spec: MetricSpec, series: Iterable[Series]) -> Metric:
    family = CounterMetricFamily(spec.name, spec.help, labels=spec.labels)
    for one in series:
        family.add_metric(one.label_values, float(one.value) * spec.scale)
    return family


def _histogram(spec: MetricSpec, series: Iterable[Series]) -> Metric:
    family = HistogramMetricFamily(spec.name, spec.help, labels=spec.labels)
    for one in series:
        bounds = [*(repr(float(bound)) for bound in one.value["bounds_seconds"]), "+Inf"]
        cumulated = 0
        buckets = []
        for bound, count in zip(bounds, one.value["counts"], strict=True):
            cumulated += count
            buckets.append((bound, cumulated))
        family.add_metric(one.label_values, buckets, one.value["sum_seconds"])
    return family


def _info(spec: MetricSpec, series: Iterable[Series]) -> Metric:
    family = InfoMetricFamily(spec.name, spec.help, labels=spec.labels)
    for one in series:
        family.add_metric(one.label_values, {key: str(text) for key, text in one.value.items()})
    return family


FAMILY_OF_KIND: Mapping[Kind, Callable[[MetricSpec, Iterable[Series]], Metric]] = {
    Kind.GAUGE: _gauge,
    Kind.COUNTER: _counter,
    Kind.HISTOGRAM: _histogram,
    Kind.INFO: _info,
}


class StatisticsCollector(Collector):
    """A prometheus-client collector over what a callable returns, one family for each row."""

    def __init__(
        self,
        read: Callable[[], Mapping[str, Any]],
        *,
        specs: Iterable[MetricSpec] | None = None,
        series_max: int = SERIES_MAX,
    ) -> None:
        """Read nothing yet; ``read`` is called once for each scrape."""
        self._read = read
        self._specs = tuple(METRICS if specs is None else specs)
        self._series_max = series_max
        self._dropped: dict[str, int] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield the families that have a value now."""
        values = self._read()
        for spec in self._specs:
            series = list(find_series(spec.path, values))
            if len(series) > self._series_max:
                dropped = len(series) - self._series_max
                self._dropped[spec.name] = self._dropped.get(spec.name, 0) + dropped
                del series[self._series_max :]
            if series:
                yield FAMILY_OF_KIND[spec.kind](spec, series)
        yield self._dropped_family()

    def _dropped_family(self) -> Metric:
        family = CounterMetricFamily(
            DROPPED_SERIES, "Series left out of a scrape over the cap.", labels=("family",)
        )
        for name, count in self._dropped.items():
            family.add_metric((name,), count)
        return family


METRICS: tuple[MetricSpec, ...] = ()
