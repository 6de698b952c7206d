"""The page of the report: figures in, one HTML document out.

What needs attention comes first. Every chart stands above its numbers, which are folded up.

Invariants: the page loads nothing, which its content security policy enforces; plotly's script is
inside the page. Text of the log is escaped wherever it is written.
"""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from operator import attrgetter
from typing import Final

from wakelog.spark.report.attention import NOTHING, attention
from wakelog.spark.report.charts import Chart, lags, latencies, sizes, traffic
from wakelog.spark.report.figures import Figures
from wakelog.spark.report.scales import compact, duration, moment, size

GROUPS_MAX: Final = 12
"""With a chart of their own, those with most messages to consume; the table has all."""
POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2329; --soft: #5b6570; --line: #dfe3e8;
  --page: #f6f7f9; --card: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa4af; --line: #333a43;
  --page: #15181c; --card: #1e2329; } }
@media print { figure { break-inside: avoid; } }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1240px; margin: 0 auto; padding: 24px 20px 48px; }
h1, h3 { overflow-wrap: anywhere; margin: 0 0 4px; } h2 { margin: 36px 0 2px; }
p { margin: 0 0 12px; color: var(--soft); }
.attention { background: var(--card); border-left: 4px solid #d98a00; margin: 0;
  padding: 10px 14px 10px 32px; }
.attention.calm { border-left-color: #3b8f5a; }
.pictures { display: grid; gap: 16px; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr)); }
figure, .wide { margin: 0; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; padding: 12px 14px; overflow-x: auto; }
.wide { grid-column: 1 / -1; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { text-align: right; padding: 3px 12px 3px 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
th { color: var(--soft); } td { white-space: nowrap; }
.text { text-align: left; white-space: normal; min-width: 8em; }
details { font-size: 13px; } summary { color: var(--soft); cursor: pointer; }
"""
_BREAKS: Final = {code: "\ufffd" for code in range(32) if chr(code) not in "\t\n\r"}
"""Characters that no document may hold, not even escaped."""
_LATENCY_TEXT: Final = (
    "From the producer's clock to the broker's. Delayed messages are left out: their delay is "
    "intended. In a group's retry topic it is the time since the first sending. Click on longest "
    "to see the longest latency as well."
)


def page(store: str, figures: Figures, made_ms: int) -> str:
    """Return the whole document."""
    from plotly.offline import get_plotlyjs

    sections = [_header(store, figures, made_ms)]
    if figures.topics:
        every = duration(figures.every_ms)
        sections += [
            _topics(figures),
            _section("Traffic", f"By store time, in intervals of {every}.", traffic(figures)),
            _section("Latency", _LATENCY_TEXT, latencies(figures)),
            _section("Sizes", "Messages by their bytes, properties included.", sizes(figures)),
            _lag(figures),
            _keys(figures),
        ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>The log of {_text(store)}</title><style>{_STYLE}</style>"
        f"<script>{get_plotlyjs()}</script></head>"
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )


def _header(store: str, figures: Figures, made_ms: int) -> str:
    sums = figures.sums
    said, found = "No message.", ""
    if sums.messages:
        said = (
            f"{compact(sums.messages)} messages, {size(sums.bytes)}, {sums.topics:,} topics, "
            f"{len(figures.groups):,} groups. "
            f"Stored from {moment(sums.first_ms)} to {moment(sums.last_ms)}."
        )
        sentences = attention(figures)
        items = "".join(f"<li>{_text(each)}</li>" for each in sentences)
        classes = "attention calm" if sentences == [NOTHING] else "attention"
        found = f'<ul class="{classes}">{items}</ul>'
    return (
        f"<header><h1>The log of <code>{_text(store)}</code></h1><p>{said} Made "
        f"{moment(made_ms)}. Times are UTC, as the brokers' clocks had them.</p>{found}</header>"
    )


def _topics(figures: Figures) -> str:
    names = ("topic", "messages", "stored", "mean", "p50", "p99", "longest", "first", "last")
    rows = [
        (
            each.topic,
            f"{each.messages:,}",
            size(each.bytes),
            size(each.bytes / each.messages),
            *map(duration, (each.p50_ms, each.p99_ms, each.max_ms)),
            moment(each.first_ms),
            moment(each.last_ms),
        )
        for each in figures.topics
    ]
    more = figures.sums.topics - len(figures.topics)
    note = f" {more:,} topics with fewer messages are left out." if more else ""
    text = f"p50, p99 and longest are latencies, see there.{note}"
    return _section("Topics", text, tables=[_wide(_table(names, rows))])


def _lag(figures: Figures) -> str:
    if not figures.groups:
        return _section("Lag", "No group has committed an offset.")
    behind = dict.fromkeys(figures.groups, 0)
    for each in figures.waiting:
        behind[each.group] += each.messages
    order = sorted(behind, key=lambda group: (-behind[group], group))
    rows = []
    for group in order:
        for topic in figures.groups[group]:
            waiting = [x for x in figures.waiting if (x.group, x.topic) == (group, topic)]
            oldest = moment(min(each.begin_ms for each in waiting)) if waiting else ""
            messages = sum(each.messages for each in waiting)
            bytes_count = sum(each.bytes for each in waiting)
            rows.append((group, topic, f"{messages:,}", size(bytes_count), oldest))
    table = _table(("group", "topic", "messages behind", "bytes", "oldest interval"), rows, texts=2)
    text = (
        "Messages that groups have not consumed, by store time. A queue in which a group has "
        "committed nothing is not counted."
    )
    return _section("Lag", text, lags(figures, order[:GROUPS_MAX]), tables=[_wide(table)])


def _keys(figures: Figures) -> str:
    tables = []
    largest_first = sorted(figures.keys, key=lambda each: figures.shown.index(each.topic))
    for topic, found in groupby(largest_first, key=attrgetter("topic")):
        rows = [(x.key, f"{x.messages:,}", size(x.bytes), f"{x.share:.1%}") for x in found]
        table = _table(("key", "messages", "bytes", "share"), rows)
        tables.append(f"<figure><h3>{_text(topic)}</h3>{table}</figure>")
    if not tables:
        return _section("Hot keys", "No message of these topics has a key.")
    text = "The most frequent keys of each topic; a message may have several."
    return _section("Hot keys", text, tables=tables)


def _section(
    name: str, text: str, charts: Iterable[Chart] = (), *, tables: Iterable[str] = ()
) -> str:
    parts = [*tables, *map(_drawn, charts)]
    pictures = f'<div class="pictures">{"".join(parts)}</div>' if parts else ""
    return f"<section><h2>{name}</h2><p>{text}</p>{pictures}</section>"


def _drawn(chart: Chart) -> str:
    config = {"displayModeBar": False, "responsive": True}
    picture = chart.figure.to_html(full_html=False, include_plotlyjs=False, config=config)
    numbers = f"<summary>Numbers</summary>{_table(chart.names, chart.rows)}"
    return f"<figure><h3>{_text(chart.name)}</h3>{picture}<details>{numbers}</details></figure>"


def _wide(table: str) -> str:
    return f'<div class="wide">{table}</div>'


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> str:
    """Return a table whose first columns are text, and the others numbers or times."""

    def line(kind: str, cells: Sequence[str]) -> str:
        kinds = [f'{kind} class="text"'] * texts + [kind] * len(cells)
        cell_texts = zip(kinds, map(_text, cells), strict=False)
        return "<tr>" + "".join(f"<{k}>{text}</{kind}>" for k, text in cell_texts) + "</tr>"

    return f"<table>{line('th', names)}{''.join(line('td', row) for row in rows)}</table>"


def _text(value: str) -> str:
    """Return text as markup that shows it."""
    return escape(value.translate(_BREAKS))
