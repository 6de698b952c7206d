"""MetricSpec: one metric family as a row, and the words in which rows are written.

A row gives name, kind and text for Prometheus, and where in `Deployment.statistics()` the values
stand. A path is a tuple of parts:

=================  ================================================================================
part               means
=================  ================================================================================
``name``           the value under that key
``3``              the value at that place of a sequence
``{label}``        every key of a mapping; the key becomes the label's value
``{label:%A%}``    those keys that begin with ``%A%``; ``{label:!%}`` those that do not with ``%``
``%A%{label}``     keys that begin with ``%A%``, and the rest of the key becomes the label's value
``*``              every key of a mapping; the values are added together
``label=x``        nothing is walked; the label has the value ``x`` here
=================  ================================================================================

A row under names of elsewhere has ``shown``: its labels, some of which no path binds.
`shown_labels` has where those come from. What has the same labels then is added together.

Invariants:
    - all sources of a row bind the same labels.
    - a histogram has no scale: its bounds are seconds already.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

Path = tuple[str, ...]

BROKER = "brokers/{broker}"
NAME_SERVER = "name_server"
TOTAL = "_total"
ALL_TOGETHER = "*"


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
    shown: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, in the order of the first path if none is given."""
        return self.shown or labels_of(self.sources[0])

    @property
    def exposed_name(self) -> str:
        """Name as a query writes it."""
        suffix = {Kind.COUNTER: TOTAL, Kind.INFO: "_info"}.get(self.kind, "")
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
        if part.endswith("}"):
            bound.append(part[part.index("{") + 1 : -1].partition(":")[0])
        elif "=" in part:
            bound.append(part.partition("=")[0])
    return tuple(bound)


def keys_of(part: str, mapping: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Return what a part with braces binds of a mapping: the label's values, and what is below."""
    prefix, _, name = part.partition("{")
    wanted = name[:-1].partition(":")[2] or prefix
    found = ((str(key), below) for key, below in mapping.items())
    if not wanted:
        return found
    if wanted.startswith("!"):
        return ((text, below) for text, below in found if not text.startswith(wanted[1:]))
    return ((text.removeprefix(prefix), below) for text, below in found if text.startswith(wanted))


def gauge(
    name: str,
    text: str,
    *sources: str,
    minus: str = "",
    scale: float = 1.0,
    shown: tuple[str, ...] = (),
) -> MetricSpec:
    """Declare a value that goes up and down. Paths are written with `/` between their parts."""
    other = _path(minus) if minus else ()
    return MetricSpec(name, Kind.GAUGE, text, tuple(map(_path, sources)), other, scale, shown)


def counter(name: str, text: str, *sources: str, shown: tuple[str, ...] = ()) -> MetricSpec:
    """Declare a value that only grows; ``_total`` is added to the name."""
    return MetricSpec(name, Kind.COUNTER, text, tuple(map(_path, sources)), shown=shown)


def histogram(name: str, text: str, *sources: str) -> MetricSpec:
    """Declare counts of durations by upper bound."""
    return MetricSpec(name, Kind.HISTOGRAM, text, tuple(map(_path, sources)))


def _path(text: str) -> Path:
    return tuple(text.split("/"))


DROPPED_SERIES = counter(
    "rocketmq_metrics_dropped_series",
    "Series left out of a scrape because their family had too many.",
    "dropped_series/{family}",
)
"""What no broker counts: the collector does."""
