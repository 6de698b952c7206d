"""From what a deployment says of itself to the series of each family.

A row of ``metrics`` has paths, which are walked through builtins (``metric_spec``). A path that is
not there yields nothing, so a row may describe an actor that is not running.

Invariants:
    - a family never has more than ``SERIES_MAX`` series; what is left out is counted in
      ``rocketmq_metrics_dropped_series_total``.
"""

import math
from collections import Counter
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
    return PathWalk(path, values).series


class PathWalk:
    """What one path finds: its series, and how many it leaves out above a number of them.

    What is left out is only counted, without a tuple of labels for each. There may be 20,000 pairs
    of a topic and a group in six families, of which a quarter is shown.
    """

    def __init__(self, path: Path, values: Any, series_max: float = math.inf) -> None:
        """Walk the path through builtins."""
        self.series: Series = {}
        self.left_out_count = 0
        self._path = path
        self._series_max = series_max
        self._walk(0, values, ())

    def _walk(self, begin: int, values: Any, labels: tuple[str, ...]) -> None:
        """Add what stands at the end of the path, from one of its parts on."""
        path = self._path
        for place in range(begin, len(path)):
            part = path[place]
            if "=" in part:
                labels = (*labels, part.partition("=")[2])
            elif part.isdigit() and isinstance(values, Sequence) and int(part) < len(values):
                values = values[int(part)]
            elif not isinstance(values, Mapping):
                return
            elif part == ALL_TOGETHER:
                self._add_together(path[place + 1 :], values, labels)
                return
            elif part.endswith("}"):
                self._branch(place, values, labels)
                return
            else:
                values = values.get(part)
        if values is not None:
            self._add([(labels, values)])

    def _branch(self, place: int, values: Mapping[Any, Any], labels: tuple[str, ...]) -> None:
        """Add what stands below the keys that a part takes."""
        part, rest = self._path[place], self._path[place + 1 :]
        if len(rest) != 1 or not rest[0].isdigit():
            for text, below in keys_of(part, values):
                self._walk(place + 1, below, (*labels, text))
            return
        index = int(rest[0])  # of thousands of names, without a call each
        if len(self.series) >= self._series_max:
            found = (index < len(below) for _, below in keys_of(part, values))
            self.left_out_count += sum(found)
        else:
            self._add(
                [
                    ((*labels, text), below[index])
                    for text, below in keys_of(part, values)
                    if index < len(below)
                ]
            )

    def _add_together(self, rest: Path, values: Mapping[Any, Any], labels: tuple[str, ...]) -> None:
        """Add what stands below all keys, as one value for each of the labels that follow."""
        if not rest and values:
            self._add([(labels, sum(values.values()))])
            return
        parts = (one for below in values.values() for one in find_series(rest, below).items())
        self._add([(labels + own, value) for own, value in add_up(parts).items()])

    def _add(self, found: Sequence[tuple[tuple[str, ...], Any]]) -> None:
        room = self._series_max - len(self.series)
        if len(found) > room:
            self.left_out_count += len(found) - int(room)
            found = found[: int(room)]
        self.series.update(found)


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


def _read_capped(spec: MetricSpec, values: Any, series_max: int) -> tuple[Series, int]:
    """Return at most so many series of one family by the labels bound, and how many are left."""
    if not spec.minus and len(spec.sources) == 1:
        walk = PathWalk(spec.sources[0], values, series_max)
        return walk.series, walk.left_out_count
    found = _read_bound(spec, values)
    return dict(islice(found.items(), series_max)), max(0, len(found) - series_max)


class SeriesReader:
    """The series of some rows, as a deployment's statistics have them now."""

    def __init__(self, specs: Iterable[MetricSpec], *, series_max: int = SERIES_MAX) -> None:
        """Read nothing yet. series_max: of a family."""
        self._specs = tuple(specs)
        self._series_max = series_max
        self._dropped_count: Counter[str] = Counter()

    def read(self, values: Mapping[str, Any]) -> Iterator[tuple[MetricSpec, Series]]:
        """Yield the families that have a value, and what was left out of them since the start."""
        for spec in self._specs:
            if spec is DROPPED_SERIES:
                continue
            # What is left out is not given labels first: that takes as long as to write it.
            bound, left_out_count = _read_capped(spec, values, self._series_max)
            if left_out_count:
                self._dropped_count[spec.exposed_name] += left_out_count
            series = _shown(spec, bound, values)
            if series:
                yield spec, series
        yield DROPPED_SERIES, {(name,): count for name, count in self._dropped_count.items()}
