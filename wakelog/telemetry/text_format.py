"""The text formats of Prometheus, 0.0.4 and OpenMetrics 1.0, written from series.

    # HELP rocketmq_topic_put_messages_total Messages stored, by topic.
    # TYPE rocketmq_topic_put_messages_total counter
    rocketmq_topic_put_messages_total{broker="broker-a",topic="T"} 7.0

The bytes are those that prometheus-client writes. It makes objects of each sample and checks each
name again, which takes five times as long: three sets of names have 42,000 series.

Invariants:
    - labels stand in the order of their names.

Source: prometheus_client.exposition.generate_latest, and the same in .openmetrics.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, Final

from prometheus_client.utils import floatToGoString

from wakelog.telemetry.metric_spec import Kind, MetricSpec

Series = dict[tuple[str, ...], Any]
"""Values by the labels' values, in the order in which a row shows its labels."""

BUCKET_BOUND: Final = "le"

PLAIN_LENGTH_MAX: Final = len("123456.0")
"""Of a whole number that Go writes as Python does; most values are such."""

_PLAIN_TYPES: Final[Mapping[Kind, str]] = {Kind.INFO: Kind.GAUGE}
"""What the older format calls a type that it does not have."""


def write_family(spec: MetricSpec, series: Series, *, is_openmetrics: bool) -> str:
    """Return the text of one family, and the heading alone if there are no series."""
    if is_openmetrics:
        name, kind = spec.name, str(spec.kind)
        text = escaped(spec.help)
    else:
        name, kind = spec.exposed_name, str(_PLAIN_TYPES.get(spec.kind, spec.kind))
        text = spec.help.replace("\\", r"\\").replace("\n", r"\n")
    heading = f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
    match spec.kind:
        case Kind.HISTOGRAM:
            lines = _histogram_lines(spec, series)
        case Kind.INFO:
            lines = _info_lines(spec, series)
        case _:
            lines = _value_lines(spec, series)
    return heading + "".join(lines)


def escaped(text: str) -> str:
    """Return a label's value as it stands between its quotes."""
    if _needs_escapes(text):
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return text


def _needs_escapes(text: str) -> bool:
    return "\\" in text or "\n" in text or '"' in text


def _value_lines(spec: MetricSpec, series: Series) -> Iterator[str]:
    """Yield the lines of a family that may have thousands of series: no call for each label."""
    labels, scale = spec.labels, spec.scale
    order = sorted(range(len(labels)), key=labels.__getitem__)
    line = _template(spec.exposed_name, [labels[place] for place in order])
    rows: Iterable[tuple[str, ...]] = series
    if order != list(range(len(labels))):
        rows = map(itemgetter(*order), series)
    if _needs_escapes("".join(chain.from_iterable(series))):
        rows = (tuple(map(escaped, texts)) for texts in rows)
    for texts, value in zip(rows, series.values(), strict=True):
        yield line % (*texts, _number(float(value) * scale))


def _histogram_lines(spec: MetricSpec, series: Series) -> Iterator[str]:
    for values, value in series.items():
        labels = dict(zip(spec.labels, values, strict=True))
        counts = list(accumulate(value["counts"]))
        bounds = [*map(repr, value["bounds_seconds"]), "+Inf"]
        for bound, count in zip(bounds, counts, strict=True):
            yield _line(f"{spec.name}_bucket", {**labels, BUCKET_BOUND: bound}, count)
        yield _line(f"{spec.name}_count", labels, counts[-1])
        yield _line(f"{spec.name}_sum", labels, value["sum_seconds"])


def _info_lines(spec: MetricSpec, series: Series) -> Iterator[str]:
    for values, value in series.items():
        facts = {key: str(text) for key, text in value.items()}
        yield _line(spec.exposed_name, {**dict(zip(spec.labels, values, strict=True)), **facts}, 1)


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    names = sorted(labels)
    texts = (escaped(labels[each]) for each in names)
    return _template(name, names) % (*texts, _number(value))


def _template(name: str, labels: list[str]) -> str:
    """Return a line of a sample, with `%s` for each label's value and for the sample's."""
    if not labels:
        return f"{name} %s\n"
    inner = ",".join(f'{label}="%s"' for label in labels)
    return f"{name}{{{inner}}} %s\n"


def _number(value: float) -> str:
    text = repr(value)
    if len(text) > PLAIN_LENGTH_MAX or not text.endswith(".0"):
        text = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text
