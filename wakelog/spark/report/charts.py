"""The charts of the report, by plotly: figures in, pictures with their numbers out.

A topic has one colour in all charts; topics without one are grey. Long times without messages are
cut out of the axes. Each latency chart has an axis of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wakelog.spark.report.figures import OTHERS, SIZE_BITS, Figures
from wakelog.spark.report.scales import compact, duration, moment, size

if TYPE_CHECKING:
    import plotly.graph_objects as go

OTHERS_NAME: Final = "other topics"
COLOURS: Final = (
    *("#0072b2", "#d98a00", "#009e73", "#c0609a", "#45a5d8", "#d55e00"),  # of Okabe and Ito
    *("#7b61c9", "#a08c00", "#a65628", "#4c9900", "#b5485d", "#00808a"),
)
GREY: Final = "#8a8f98"  # readable on light and dark
GRID: Final = "rgba(128,128,128,0.25)"
TICKS_MAX: Final = 6
PAUSE_INTERVALS_MIN: Final = 4
"""So many empty intervals in a row are cut out."""

Value = float | None
"""None: unknown there."""


class Chart(NamedTuple):
    """A picture, and the numbers in it as rows of text."""

    name: str
    figure: go.Figure
    names: Sequence[str]
    rows: Sequence[Sequence[str]]


class Series(NamedTuple):
    """One colour of a chart: values by place on the axis. A line has a dash, columns have none."""

    name: str
    colour: str
    values: Mapping[Any, Value]
    dash: str = ""
    is_hidden: bool = False


def colours(figures: Figures) -> dict[str, str]:
    """Return the colours of topics: those shown first, then those that groups wait for."""
    waited_for = sorted({each.topic for each in figures.waiting} - {*figures.shown})
    return dict(zip([*figures.shown, *waited_for], COLOURS, strict=False))


def traffic(figures: Figures) -> list[Chart]:
    """Draw messages and bytes a second, all topics in one chart."""
    charts = []
    for name, field, label in (
        ("Messages a second", "messages", compact),
        ("Bytes a second", "bytes", size),
    ):
        series = []
        for topic in (*figures.shown, OTHERS):
            found = [each for each in figures.intervals if each.topic == topic]
            rates = {x.begin_ms: getattr(x, field) * 1000 / figures.every_ms for x in found}
            series.append(_topic_series(figures, topic, rates))
        charts.append(_timed_chart(name, series, figures.every_ms, label))
    return charts


def latencies(figures: Figures) -> list[Chart]:
    """Draw p50 and p99 of each topic; the longest, which would flatten them, on request."""
    charts = []
    for topic in (*figures.shown, OTHERS):
        found = [x for x in figures.intervals if x.topic == topic and x.p99_ms is not None]
        colour, series = colours(figures).get(topic, GREY), []
        for name, field, dash in (
            ("p50", "p50_ms", "dot"),
            ("p99", "p99_ms", "solid"),
            ("longest", "max_ms", "dash"),
        ):
            values = {each.begin_ms: getattr(each, field) for each in found}
            series.append(Series(name, colour, values, dash, is_hidden=field == "max_ms"))
        if found:
            name = topic or OTHERS_NAME
            charts.append(_timed_chart(name, series, figures.every_ms, duration, unit="ms"))
    return charts


def sizes(figures: Figures) -> list[Chart]:
    """Draw how many messages of each topic have which size, and one empty size on each side."""
    charts = []
    for each in figures.topics[: len(figures.shown)]:
        used = [n for n, count in zip(SIZE_BITS, each.sizes, strict=True) if count]
        values = {
            f"from {size(1 << bits)}": each.sizes[bits - SIZE_BITS[0]]
            for bits in SIZE_BITS[max(used[0] - 1 - SIZE_BITS[0], 0) : used[-1] + 2 - SIZE_BITS[0]]
        }
        series = Series("messages", colours(figures)[each.topic], values)
        charts.append(_chart(each.topic, "size", [series], list(values), lambda x: f"{x:,}"))
    return charts


def lags(figures: Figures, groups: Iterable[str]) -> list[Chart]:
    """Draw what each of these groups has not consumed, if there is any."""
    charts = []
    for group in groups:
        counts: dict[str, dict[int, float]] = {}
        for each in figures.waiting:
            if each.group == group:
                topic = each.topic if each.topic in colours(figures) else OTHERS
                found = counts.setdefault(topic, {})
                found[each.begin_ms] = found.get(each.begin_ms, 0) + each.messages
        order = sorted(counts, key=lambda topic: (topic == OTHERS, topic))
        series = [_topic_series(figures, topic, counts[topic]) for topic in order]
        if series:
            charts.append(_timed_chart(group, series, figures.every_ms, compact))
    return charts


def _topic_series(figures: Figures, topic: str, found: dict[int, float]) -> Series:
    return Series(topic or OTHERS_NAME, colours(figures).get(topic, GREY), found)


def _timed_chart(
    name: str,
    series: Sequence[Series],
    every_ms: int,
    label: Callable[[float], str],
    unit: str = "",
) -> Chart:
    series = [each for each in series if each.values]
    begins = sorted({begin for each in series for begin in each.values})
    ends = [begin + every_ms for begin in begins]
    gaps = [(end, begin) for end, begin in zip(ends, begins[1:], strict=False) if end < begin]
    # A place without a value where a gap begins: a line does not go on across it.
    places = sorted({*begins, *(end for end, _ in gaps)})
    chart = _chart(name, "from", series, places, label, unit, place_text=moment)
    breaks = [
        {"bounds": [moment(end + every_ms), moment(begin - every_ms)]}
        for end, begin in gaps
        if begin - end >= PAUSE_INTERVALS_MIN * every_ms
    ]
    chart.figure.update_xaxes(type="date", rangebreaks=breaks)
    if breaks:  # plotly would choose ticks for the whole span, most of which is cut out
        ticks = [moment(begin) for begin in begins[:: -(-len(begins) // TICKS_MAX)]]
        chart.figure.update_xaxes(tickvals=ticks, tickformat="%H:%M:%S<br>%Y-%m-%d")
    return chart


def _chart(
    name: str,
    first: str,
    series: Sequence[Series],
    places: Sequence[Any],
    label: Callable[[float], str],
    unit: str = "",
    place_text: Callable[[Any], str] = str,
) -> Chart:
    import plotly.graph_objects as go

    figure = go.Figure()
    texts = [place_text(place) for place in places]
    for each in series:
        trace: dict[str, Any] = {
            "x": texts,
            "y": [each.values.get(place) for place in places],
            "name": escape(each.name),  # plotly takes some elements of HTML in names
        }
        if each.dash:
            line = {"color": each.colour, "dash": each.dash}
            visible = "legendonly" if each.is_hidden else True
            figure.add_scatter(
                **trace, line=line, visible=visible, mode="lines+markers", marker_size=4
            )
        else:
            figure.add_bar(**trace, marker={"color": each.colour, "line_width": 0})
    figure.update_layout(
        barmode="stack",
        height=280,
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font_color=GREY,
        showlegend=len(series) > 1,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
    )
    figure.update_xaxes(showgrid=False, automargin=True)
    figure.update_yaxes(
        rangemode="tozero", gridcolor=GRID, zerolinecolor=GRID, title=unit, automargin=True
    )
    rows = []
    for place, text in zip(places, texts, strict=True):
        values = [each.values.get(place) for each in series]
        if any(values):
            rows.append((text, *("" if value is None else label(value) for value in values)))
    return Chart(name, figure, (first, *(each.name for each in series)), rows)
