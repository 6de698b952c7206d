"""From what a deployment says of itself to the series of each family.

A row of ``metrics`` has paths, which are walked through builtins (``metric_spec``). A path that is
not there yields nothing, so a row may describe an actor that is not running.

Invariants:
    - a family never has more than ``SERIES_MAX`` series; what is left out is counted in
      ``rocketmq_metrics_dropped_series_total``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from wakelog.telemetry.metric_spec import (
    ALL_TOGETHER,
    DROPPED_SERIES,
    MetricSpec,
    Path,
    keys_of,
    labels_of,
)
from wakelog.telemetry.shown_labels import show_labels
from wakelog.telemetry.text_format import Series

SERIES_MAX = 5_000
"""Series of one family in one scrape: some 0.5 MB of text and 0.1 s. Three sets of names have a
dozen families by topic and group, and a scrape of all takes a second."""


def find_series(path: Path, values: Any) -> Series:
    """Walk one path through builtins; return what stands at its end by the labels' values."""
    return dict(_walk(path, 0, values, ()))


def _walk(
    path: Path, begin: int, values: Any, labels: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what stands at the end of a path, from one of its parts on."""
    for place in range(begin, len(path)):
        part = path[place]
        if "=" in part:
            labels = (*labels, part.partition("=")[2])
        elif part.isdigit() and isinstance(values, Sequence) and int(part) < len(values):
            values = values[int(part)]
        elif not isinstance(values, Mapping):
            return
        elif part == ALL_TOGETHER or part.endswith("}"):
            yield from _branch(path, place, values, labels)
            return
        else:
            values = values.get(part)
    if values is not None:
        yield labels, values


def _branch(
    path: Path, place: int, values: Mapping[Any, Any], labels: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what stands at the end of a path, from a part on that takes several keys."""
    part, rest = path[place], path[place + 1 :]
    if part == ALL_TOGETHER:
        parts = (one for below in values.values() for one in _walk(path, place + 1, below, ()))
        yield from ((labels + own, value) for own, value in add_up(parts).items())
    elif len(rest) == 1 and rest[0].isdigit():  # of thousands of names, without a frame each
        index = int(rest[0])
        for text, below in keys_of(part, values):
            if index < len(below):
                yield (*labels, text), below[index]
    else:
        for text, below in keys_of(part, values):
            yield from _walk(path, place + 1, below, (*labels, text))


def add_up(series: Iterable[tuple[tuple[str, ...], Any]]) -> Series:
    """Return the values by label, those under the same labels added together."""
    found: Series = {}
    for labels, value in series:
        found[labels] = found[labels] + value if labels in found else value
    return found


def read_series(spec: MetricSpec, values: Any) -> Series:
    """Return the series of one family, of all its sources, by the labels that it shows."""
    return _shown(spec, _read_bound(spec, values), values)


def _shown(spec: MetricSpec, series: Series, values: Any) -> Series:
    if not spec.shown:
        return series
    return add_up(show_labels(spec.shown, labels_of(spec.sources[0]), series, values))


def _read_bound(spec: MetricSpec, values: Any) -> Series:
    """Return the series of one family by the labels that its paths bind."""
    first, *others = spec.sources
    found = find_series(first, values)
    if spec.minus:
        other = find_series(spec.minus, values)
        found = {key: max(0, found[key] - other[key]) for key in found if key in other}
    for source in others:
        found |= find_series(source, values)
    return found


class SeriesReader:
    """The series of some rows, as a deployment's statistics have them now."""

    def __init__(self, specs: Iterable[MetricSpec], *, series_max: int = SERIES_MAX) -> None:
        """Read nothing yet. series_max: of a family."""
        self._specs = tuple(specs)
        self._series_max = series_max
        self._dropped_count: dict[str, int] = {}

    def read(self, values: Mapping[str, Any]) -> Iterator[tuple[MetricSpec, Series]]:
        """Yield the families that have a value, and what was left out of them since the start."""
        for spec in self._specs:
            if spec is DROPPED_SERIES:
                continue
            # What is left out is not given labels first: that takes as long as to write it.
            series = _shown(spec, self._capped(spec, _read_bound(spec, values)), values)
            if series:
                yield spec, series
        yield DROPPED_SERIES, {(name,): count for name, count in self._dropped_count.items()}

    def _capped(self, spec: MetricSpec, series: Series) -> Series:
        dropped_count = len(series) - self._series_max
        if dropped_count <= 0:
            return series
        before_count = self._dropped_count.get(spec.exposed_name, 0)
        self._dropped_count[spec.exposed_name] = before_count + dropped_count
        return dict(islice(series.items(), self._series_max))
