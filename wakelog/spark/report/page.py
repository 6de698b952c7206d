"""The page: figures in, HTML out.

Every picture stands above the numbers that it is made of, folded up. The style follows the reader's
choice of light or dark.

Invariants: what a page says it may load is nothing, and a browser holds it to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from wakelog.spark.report.charts import Axis, Series, Slots, columns, legend, lines
from wakelog.spark.report.figures import (
    OTHERS,
    SHOWN_TOPICS_MAX,
    SIZE_BITS,
    Figures,
    Interval,
    Waiting,
)
from wakelog.spark.report.markup import Markup, element, joined
from wakelog.spark.report.scales import (
    binary_size,
    compact,
    duration,
    duration_ticks,
    moment,
    size,
    span,
    ticks,
    time_labels,
    time_ticks,
)
from wakelog.spark.report.style import STYLE

OTHERS_NAME: Final = "other topics"
GROUPS_MAX: Final = 12
"""With a picture of their own, those that are furthest behind; the table has all."""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def page(store: str, figures: Figures, made_ms: int) -> str:
    """Return the whole document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"The log of {store}"),
        element("style", Markup(STYLE)),
    )
    sections = [_header(store, figures, made_ms)]
    if figures.topics:
        sections += [_topics(figures), _traffic(figures), _latency(figures), _sizes(figures)]
        sections += [_lag(figures), _keys(figures)]
    body = element("body", element("main", *sections))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _header(store: str, figures: Figures, made_ms: int) -> Markup:
    sums = figures.sums
    facts = {
        "messages": compact(sums.messages),
        "stored": size(sums.bytes),
        "topics": compact(sums.topics),
        "groups": compact(len(figures.groups)),
        "messages behind": compact(sum(each.messages for each in figures.waiting)),
    }
    tiles = [
        element("li", element("b", value), element("span", name)) for name, value in facts.items()
    ]
    said = f"Made {moment(made_ms)}. Times are UTC, as the brokers' clocks had them."
    if sums.messages:
        said = f"Stored from {moment(sums.first_ms)} to {moment(sums.last_ms)}. {said}"
    else:
        said = f"No message. {said}"
    return element(
        "header",
        element("h1", "The log of ", element("code", store)),
        element("p", said),
        element("ul", *tiles, class_="tiles"),
    )


def _topics(figures: Figures) -> Markup:
    rows = [
        (
            each.topic,
            f"{each.messages:,}",
            size(each.bytes),
            size(each.bytes / each.messages),
            duration(each.p50_ms),
            duration(each.p99_ms),
            duration(each.max_ms),
            moment(each.first_ms),
            moment(each.last_ms),
        )
        for each in figures.topics
    ]
    names = ("topic", "messages", "stored", "mean", "p50", "p99", "longest", "first", "last")
    more = figures.sums.topics - len(figures.topics)
    note = f"{more:,} topics with fewer messages are left out." if more else ""
    return _section(
        "Topics",
        f"p50, p99 and longest: from the producer's clock to the broker's. {note}",
        element("div", _table(names, rows, texts=1), class_="wide"),
    )


def _traffic(figures: Figures) -> Markup:
    timeline = _Timeline(figures)
    seconds = figures.every_ms / 1000
    pictures = []
    for name, count, label in (
        ("Messages a second", attrgetter("messages"), compact),
        ("Bytes a second", attrgetter("bytes"), size),
    ):
        series = timeline.series(count, 1 / seconds)
        top = max(map(sum, zip(*(each.values for each in series), strict=True)))
        drawn = columns(name, series, timeline.slots, Axis(ticks(top), label))
        pictures.append(_figure(name, legend(series), drawn, timeline.table(series, label)))
    return _section(
        "Traffic", f"By the time of storing, in intervals of {span(figures.every_ms)}.", *pictures
    )


def _latency(figures: Figures) -> Markup:
    timeline = _Timeline(figures)
    top = max(each.max_ms for each in figures.intervals)
    axis = Axis(duration_ticks(top), duration, is_log=True)
    pictures = []
    for topic in timeline.topics:
        found = timeline.by_topic[topic]
        series = [
            Series(name, timeline.values(found, field), colour)
            for name, field, colour in (
                ("longest", "max_ms", 6),
                ("p99", "p99_ms", 1),
                ("p50", "p50_ms", 0),
            )
        ]
        name = topic or OTHERS_NAME
        drawn = lines(f"Latency of {name}", series, timeline.slots, axis)
        table = timeline.table(series, duration)
        pictures.append(_figure(name, legend(series), drawn, table))
    return _section(
        "Latency",
        "From the producer's clock to the broker's; of a group's retry topic, from the first "
        "sending. The axis is logarithmic.",
        *pictures,
    )


def _sizes(figures: Figures) -> Markup:
    shown = figures.topics[:SHOWN_TOPICS_MAX]
    used = [i for i in range(len(SIZE_BITS)) if any(each.sizes[i] for each in shown)]
    range_of = range(used[0], used[-1] + 1) if used else range(0)
    names = [
        f"{binary_size(1 << SIZE_BITS[i])} to {binary_size(2 << SIZE_BITS[i])} bytes"
        for i in range_of
    ]
    every = max(1, -(-len(range_of) // 9))
    labels = [(float(n), binary_size(1 << SIZE_BITS[i])) for n, i in enumerate(range_of)]
    slots = Slots(names, labels[::every])
    pictures = []
    for colour, each in enumerate(shown):
        counts = [each.sizes[i] for i in range_of]
        series = [Series("messages", counts, colour)]
        axis = Axis(ticks(max(counts)), compact)
        drawn = columns(f"Sizes in {each.topic}", series, slots, axis)
        table = _table(
            ("size", "messages"),
            [(name, f"{count:,}") for name, count in zip(names, counts, strict=True)],
            texts=1,
        )
        pictures.append(_figure(each.topic, Markup(), drawn, table))
    return _section("Sizes", "Messages by their bytes in the log, properties included.", *pictures)


def _lag(figures: Figures) -> Markup:
    if not figures.groups:
        return _section("Lag", "No group has committed an offset.")
    behind = {group: 0 for group in figures.groups}
    for each in figures.waiting:
        behind[each.group] += each.messages
    order = sorted(behind, key=lambda group: (-behind[group], group))
    pictures = [_group_figure(figures, group) for group in order[:GROUPS_MAX] if behind[group]]
    return _section(
        "Lag",
        "What groups have not consumed, by the time of its storing. Of a queue in which a group "
        "has committed nothing, nothing counts.",
        element("div", _lag_table(figures, order), class_="wide"),
        *pictures,
    )


def _lag_table(figures: Figures, order: Sequence[str]) -> Markup:
    found: dict[tuple[str, str], list[Waiting]] = {}
    for each in figures.waiting:
        found.setdefault((each.group, each.topic), []).append(each)
    rows = []
    for group in order:
        for topic in figures.groups[group]:
            waiting = found.get((group, topic), [])
            oldest = moment(min(each.begin_ms for each in waiting)) if waiting else ""
            messages = sum(each.messages for each in waiting)
            bytes_count = sum(each.bytes for each in waiting)
            rows.append((group, topic, f"{messages:,}", size(bytes_count), oldest))
    return _table(("group", "topic", "messages behind", "bytes", "oldest interval"), rows, texts=2)


def _group_figure(figures: Figures, group: str) -> Markup:
    found = [each for each in figures.waiting if each.group == group]
    begins = _begins(found, figures.every_ms)
    topics = sorted({each.topic for each in found})
    colours = _colours_of(topics[:SHOWN_TOPICS_MAX], figures.shown)
    sums: dict[tuple[str, int], float] = {}
    for each in found:
        key = each.topic if each.topic in colours else OTHERS, each.begin_ms
        sums[key] = sums.get(key, 0.0) + each.messages
    names = [*colours, *([OTHERS] if len(topics) > len(colours) else [])]
    series = [
        Series(
            name or OTHERS_NAME,
            [sums.get((name, begin), 0.0) for begin in begins],
            colours.get(name, SHOWN_TOPICS_MAX),
        )
        for name in names
    ]
    top = max(map(sum, zip(*(each.values for each in series), strict=True)))
    slots = _time_slots(begins, figures.every_ms)
    drawn = columns(f"Lag of {group}", series, slots, Axis(ticks(top), compact))
    return _figure(group, legend(series), drawn, _slot_table(slots, series, compact))


def _colours_of(topics: Sequence[str], shown: Sequence[str]) -> dict[str, int]:
    """Give topics the colours that they have in other pictures, and the rest what is left."""
    left = (i for i in range(SHOWN_TOPICS_MAX) if i >= len(shown) or shown[i] not in topics)
    return {topic: shown.index(topic) if topic in shown else next(left) for topic in topics}


def _keys(figures: Figures) -> Markup:
    pictures = []
    largest_first = sorted(figures.keys, key=lambda each: figures.shown.index(each.topic))
    for topic, found in groupby(largest_first, key=lambda each: each.topic):
        colour = figures.shown.index(topic)
        rows = [
            element(
                "tr",
                element("td", element("code", each.key)),
                element("td", f"{each.messages:,}", class_="n"),
                element("td", size(each.bytes), class_="n"),
                element("td", f"{each.share:.1%}", class_="n"),
                element("td", _bar(each.share, colour), class_="bar"),
            )
            for each in found
        ]
        names = [element("th", "key")]
        names += [element("th", name, class_="n") for name in ("messages", "bytes", "share", "")]
        table = element("table", element("tr", *names), *rows, class_="keys")
        pictures.append(element("figure", element("h3", topic), table))
    if not pictures:
        return _section("Hot keys", "No message of these topics has a key.")
    return _section(
        "Hot keys", "The most frequent keys of each topic; a message may have several.", *pictures
    )


def _bar(share: float, colour: int) -> Markup:
    bar = element("rect", class_=f"c{colour}", width=max(min(share, 1.0) * 100, 0.5), height=8)
    return element("svg", bar, viewBox="0 0 100 8", preserveAspectRatio="none", aria_hidden="true")


class _Timeline:
    """The intervals of all topics over one axis of time."""

    def __init__(self, figures: Figures) -> None:
        self.by_topic: dict[str, dict[int, Interval]] = {}
        for each in figures.intervals:
            self.by_topic.setdefault(each.topic, {})[each.begin_ms] = each
        self.begins = _begins(figures.intervals, figures.every_ms)
        self.topics = [x for x in (*figures.shown, OTHERS) if x in self.by_topic]
        self.slots = _time_slots(self.begins, figures.every_ms)
        self._colours = {topic: i for i, topic in enumerate(figures.shown)}

    def series(self, count: Callable[[Interval], float], factor: float) -> list[Series]:
        """Return a series for each topic, 0 where nothing was stored."""
        series = []
        for topic in self.topics:
            found = self.by_topic[topic]
            values = [count(found[x]) * factor if x in found else 0.0 for x in self.begins]
            colour = self._colours.get(topic, SHOWN_TOPICS_MAX)
            series.append(Series(topic or OTHERS_NAME, values, colour))
        return series

    def values(self, found: dict[int, Interval], field: str) -> list[float | None]:
        """Return one field of a topic's intervals, None where nothing was stored."""
        return [getattr(found[x], field) if x in found else None for x in self.begins]

    def table(self, series: Sequence[Series], label: Callable[[float], str]) -> Markup:
        """Return the numbers of a picture."""
        return _slot_table(self.slots, series, label)


def _begins(found: Iterable[Interval | Waiting], every_ms: int) -> list[int]:
    """Return the begins of all intervals from the first to the last."""
    begins = [each.begin_ms for each in found]
    return list(range(min(begins), max(begins) + 1, every_ms))


def _time_slots(begins: Sequence[int], every_ms: int) -> Slots:
    places = time_ticks(begins[0], begins[-1] + every_ms)
    labels = zip(places, time_labels(places), strict=True)
    return Slots(
        [moment(begin) for begin in begins],
        [((place - begins[0]) / every_ms, label) for place, label in labels],
    )


def _slot_table(slots: Slots, series: Sequence[Series], label: Callable[[float], str]) -> Markup:
    rows = []
    for slot, name in enumerate(slots.names):
        values = [each.values[slot] for each in series]
        if any(values):
            rows.append((name, *("" if value is None else label(value) for value in values)))
    return _table(("from", *(each.name for each in series)), rows, texts=1)


def _section(name: str, said: str, *parts: Markup) -> Markup:
    return element(
        "section",
        element("h2", name),
        element("p", said.strip()),
        element("div", *parts, class_="pictures") if parts else Markup(),
    )


def _figure(name: str, key: Markup, picture: Markup, table: Markup) -> Markup:
    numbers = element("details", element("summary", "Numbers"), table)
    return element("figure", element("h3", name), key, picture, numbers)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int) -> Markup:
    """Make a table of which all but the first columns are numbers or times."""

    def cells(kind: str, row: Sequence[str]) -> Markup:
        return joined(
            *(
                element(kind, cell, class_="n") if i >= texts else element(kind, cell)
                for i, cell in enumerate(row)
            )
        )

    lines_of = [element("tr", cells("td", row)) for row in rows]
    return element("table", element("tr", cells("th", names)), *lines_of)
