"""MetricSpec: one metric family as a row, and the words in which rows are written.

A row gives name, kind and text for Prometheus, and where in `Deployment.statistics()` the values
stand. A path is a tuple of parts:

=============  ====================================================================================
part           means
=============  ====================================================================================
``name``       the value under that key
``3``          the value at that place of a sequence
``{label}``    every key of a mapping; the key becomes the label's value
``label=x``    nothing is walked; the label has the value ``x`` here
=============  ====================================================================================

Invariants:
    - all sources of a row bind the same labels.
    - a histogram has no scale: its bounds are seconds already.
"""

from enum import StrEnum

import msgspec

Path = tuple[str, ...]

BROKER = "brokers/{broker}"
NAME_SERVER = "name_server"


class Kind(StrEnum):
    """What Prometheus calls the type."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class MetricSpec(msgspec.Struct, frozen=True):
    """One family: its name, its text, and the paths at which its values stand.

    With ``minus`` the value there, under the same labels, is taken away from the first source, and
    what would be negative is 0: both were read one after the other. ``scale`` is multiplied in:
    percent to ratio.
    """

    name: str
    kind: Kind
    help: str
    sources: tuple[Path, ...]
    minus: Path = ()
    scale: float = 1.0

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, in the order of the first path."""
        return labels_of(self.sources[0])

    @property
    def exposed_name(self) -> str:
        """Name as a query writes it."""
        suffix = {Kind.COUNTER: "_total", Kind.INFO: "_info"}.get(self.kind, "")
        return self.name + suffix

    @property
    def series_names(self) -> tuple[str, ...]:
        """Every name that a query may use."""
        if self.kind is Kind.HISTOGRAM:
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return (self.exposed_name,)


def labels_of(path: Path) -> tuple[str, ...]:
    """Return the labels that a path binds, in its order."""
    bound = []
    for part in path:
        if part.startswith("{"):
            bound.append(part[1:-1])
        elif "=" in part:
            bound.append(part.partition("=")[0])
    return tuple(bound)


def gauge(name: str, text: str, *sources: str, minus: str = "", scale: float = 1.0) -> MetricSpec:
    """Declare a value that goes up and down. Paths are written with `/` between their parts."""
    other = _path(minus) if minus else ()
    return MetricSpec(name, Kind.GAUGE, text, tuple(map(_path, sources)), other, scale)


def counter(name: str, text: str, *sources: str) -> MetricSpec:
    """Declare a value that only grows; ``_total`` is added to the name."""
    return MetricSpec(name, Kind.COUNTER, text, tuple(map(_path, sources)))


def histogram(name: str, text: str, *sources: str) -> MetricSpec:
    """Declare counts of durations by upper bound."""
    return MetricSpec(name, Kind.HISTOGRAM, text, tuple(map(_path, sources)))


def _path(text: str) -> Path:
    return tuple(text.split("/"))
