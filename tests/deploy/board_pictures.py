"""Pictures of the boards in docs/pictures/boards, drawn from the boards' own queries.

    python -m tests.deploy.board_pictures

A broker runs under load for some minutes, and Prometheus scrapes it. Then each panel of each board
asks Prometheus what Grafana would ask, in the place that the board gives it. Colours and axes are
ours: Grafana is not needed for it. A panel without data says so.
"""

import html
import itertools
import json
import re
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.compat.provision import ROOT
from tests.console.browser.window import chromium_in
from tests.deploy.test_prometheus import fetch, running_broker, running_prometheus
from tests.test_dashboards import BOARDS, VARIABLES, board_at

FOLDER: Final = ROOT / "docs" / "pictures" / "boards"
PICTURE_BYTES_MAX: Final = 300_000

LIVE_SECONDS: Final = 240.0
SHOWN_SECONDS: Final = 180
STEP_SECONDS: Final = 3
RATE_INTERVAL: Final = "20s"
"""Four scrapes and more, as Grafana takes it."""

COLUMN, ROW = 50, 22
"""Points of a column and of a row of a board's grid."""

LINES_MAX: Final = 8
LEGENDS_MAX: Final = 3
ROWS_MAX: Final = 5
"""Of a panel: what is more is counted."""

COLOURS: Final = (
    "#3274d9",
    "#e0b400",
    "#37872d",
    "#c4162a",
    "#8f3bb8",
    "#ff780a",
    "#1f60c4",
    "#705da0",
)
STYLE: Final = """
body { margin: 0; background: #f4f5f5; font: 12px sans-serif; color: #24292e; }
#board { position: relative; }
.panel { position: absolute; box-sizing: border-box; padding: 6px 8px; overflow: hidden;
  background: white; border: 3px solid #f4f5f5; }
.row { position: absolute; padding: 6px 8px; font-weight: bold; }
h2 { margin: 0 0 4px; font-size: 12px; } .none { color: #8e8e8e; padding-top: 20px; }
.top { font-size: 10px; color: #6e6e6e; }
.number { font-size: 22px; color: #37872d; } .legend { white-space: nowrap; font-size: 10px; }
td, th { padding: 1px 8px 1px 0; text-align: left; font-size: 11px; white-space: nowrap; }
"""

Line = tuple[str, list[tuple[float, float]]]
"""A legend, and its points: seconds and values."""


class Asker(NamedTuple):
    """Asks a Prometheus for what panels show."""

    port: int
    end_seconds: float

    def lines(self, target: Mapping[str, Any]) -> list[Line]:
        """Return the lines of a query over the time that is shown."""
        begin = self.end_seconds - SHOWN_SECONDS
        asked = {"start": begin, "end": self.end_seconds, "step": STEP_SECONDS}
        found = self._ask("query_range", target, **asked)
        return [(legend(target, each), _points(each["values"])) for each in found]

    def now(self, target: Mapping[str, Any]) -> list[tuple[dict[str, str], float]]:
        """Return the labels and values of a query now."""
        found = self._ask("query", target, time=self.end_seconds)
        return [(each["metric"], float(each["value"][1])) for each in found]

    def _ask(self, kind: str, target: Mapping[str, Any], **asked: float) -> list[Any]:
        words = urllib.parse.urlencode({"query": expanded(target["expr"]), **asked})
        answer = json.loads(fetch(f"http://127.0.0.1:{self.port}/api/v1/{kind}?{words}"))
        result: list[Any] = answer["data"]["result"]
        return result


def expanded(expression: str) -> str:
    """Return an expression as Grafana asks it with everything chosen."""
    for name in VARIABLES:
        expression = expression.replace(f"${name}", ".*")
    return expression.replace("$__rate_interval", RATE_INTERVAL)


def legend(target: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return what a line is called."""
    text: str = target["legendFormat"]
    for label, value in found["metric"].items():
        text = text.replace(f"{{{{{label}}}}}", value)
    return re.sub(r"{{\w+}}", "", text).strip()


def _points(values: Sequence[Sequence[Any]]) -> list[tuple[float, float]]:
    found = ((float(at), float(value)) for at, value in values)
    return [each for each in found if abs(each[1]) < float("inf")]


def shown(value: float, unit: str) -> str:
    """Return a value with its unit, short."""
    if unit == "percentunit":
        return f"{value:.1%}"
    if unit in ("s", "ms"):
        seconds = value / 1000 if unit == "ms" else value
        return f"{seconds:,.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
    suffix = {"bytes": "B", "Bps": "B/s", "cps": "/s", "reqps": "/s"}.get(unit, "")
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{suffix}"
    return f"{value:.3g} {suffix}".strip()


def panel_html(panel: Mapping[str, Any], asker: Asker) -> str:
    """Return one panel in its place."""
    place, unit = panel["gridPos"], panel["fieldConfig"]["defaults"]["unit"]
    width, height = place["w"] * COLUMN, place["h"] * ROW
    draw = DRAWN[panel["type"]]
    inner = draw(panel["targets"], asker, unit, width - 24, height - 80)
    title = html.escape(panel["title"])
    return _placed("panel", place, f"<h2>{title}</h2>{inner or NO_DATA}")


NO_DATA: Final = '<div class="none">No data</div>'


def _placed(kind: str, place: Mapping[str, int], inner: str) -> str:
    sides = {"left": place["x"] * COLUMN, "top": place["y"] * ROW}
    sides |= {"width": place["w"] * COLUMN, "height": place["h"] * ROW}
    style = ";".join(f"{side}:{points}px" for side, points in sides.items())
    return f'<div class="{kind}" style="{style}">{inner}</div>'


def graph_html(targets: Any, asker: Asker, unit: str, width: int, height: int) -> str:
    """Return lines over time, their greatest value and legends."""
    every = [line for target in targets for line in asker.lines(target) if line[1]]
    if not every:
        return ""
    top = max(value for _, points in every for _, value in points) or 1.0
    begin = asker.end_seconds - SHOWN_SECONDS
    drawn: list[str] = []
    legends: list[str] = []
    for (text, points), colour in zip(every, itertools.cycle(COLOURS), strict=False):
        if len(drawn) == LINES_MAX:
            break
        places = (
            f"{(at - begin) / SHOWN_SECONDS * width:.1f},{height - value / top * (height - 4):.1f}"
            for at, value in points
        )
        line = f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="'
        drawn.append(f'{line}{" ".join(places)}"/>')
        if len(legends) < LEGENDS_MAX:
            legends.append(f'<span style="color:{colour}">&#9644; {html.escape(text)}</span>')
    more = f" and {len(every) - len(legends)} more" if len(every) > len(legends) else ""
    axis = f'<line x1="0" x2="{width}" y1="{height}" y2="{height}" stroke="#ccc"/>'
    label = f'<div class="top">{shown(top, unit)}</div>'
    picture = f'<svg width="{width}" height="{height + 1}">{axis}{"".join(drawn)}</svg>'
    return f'{label}{picture}<div class="legend">{" ".join(legends)}{more}</div>'


def number_html(targets: Any, asker: Asker, unit: str, _width: int, _height: int) -> str:
    """Return numbers: the last value of each series."""
    lines = [line for target in targets for line in asker.lines(target) if line[1]]
    texts = [html.escape(shown(points[-1][1], unit)) for _, points in lines[:LEGENDS_MAX]]
    return f'<div class="number">{"<br>".join(texts)}</div>' if texts else ""


def bars_html(targets: Any, asker: Asker, unit: str, width: int, _height: int) -> str:
    """Return what is so now as bars, each with its value; a share fills its part of the width."""
    found = [each for target in targets for each in asker.now(target)]
    top = 1.0 if unit == "percentunit" else max([value for _, value in found], default=0.0) or 1.0
    rows = []
    for labels, value in found[:ROWS_MAX]:
        bar = (
            f'<div style="background:#37872d;height:16px;width:{value / top * width:.0f}px"></div>'
        )
        text = html.escape(" ".join(labels.values()))
        rows.append(f'{bar}<div class="legend">{text} {shown(value, unit)}</div>')
    return "".join(rows)


def table_html(targets: Any, asker: Asker, unit: str, _width: int, _height: int) -> str:
    """Return rows of the same labels, with a column for each query."""
    names = [target["legendFormat"] for target in targets]
    rows: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for target in targets:
        for labels, value in asker.now(target):
            rows.setdefault(tuple(labels.items()), {})[target["legendFormat"]] = value
    if not rows:
        return ""
    heads = [name for name, _ in next(iter(rows))]
    lines = [_cells("th", [*heads, *names])]
    for key, values in itertools.islice(rows.items(), ROWS_MAX):
        numbers = [shown(values[name], unit) if name in values else "" for name in names]
        lines.append(_cells("td", [*(text for _, text in key), *numbers]))
    more = len(rows) - ROWS_MAX
    return f"<table>{''.join(lines)}</table>" + (f"and {more} more" if more > 0 else "")


def _cells(kind: str, texts: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(text)}</{kind}>' for text in texts)}</tr>"


DRAWN: Final[dict[str, Callable[[Any, Asker, str, int, int], str]]] = {
    "timeseries": graph_html,
    "stat": number_html,
    "gauge": bars_html,
    "bargauge": bars_html,
    "table": table_html,
}
"""By Grafana's names of the kinds of panels."""


def board_html(board: Mapping[str, Any], asker: Asker) -> tuple[str, int]:
    """Return a board as a page, and the page's height in points."""
    parts: list[str] = []
    for panel in board["panels"]:
        if panel["type"] == "row":
            parts.append(_placed("row", panel["gridPos"], html.escape(panel["title"])))
        else:
            parts.append(panel_html(panel, asker))
    places = [panel["gridPos"] for panel in board["panels"]]
    height = max(place["y"] + place["h"] for place in places) * ROW
    page = f'<style>{STYLE}</style><div id="board" style="height:{height}px">{"".join(parts)}</div>'
    return page, height


def pages(seconds: float = LIVE_SECONDS) -> Iterator[tuple[str, str, int]]:
    """Yield the name of each board, its page and its height, from a broker under load."""
    with (
        tempfile.TemporaryDirectory() as name,
        running_broker(Path(name)) as broker,
        running_prometheus(Path(name), broker) as prometheus,
    ):
        time.sleep(seconds)
        asker = Asker(prometheus.port, time.time())
        for path in BOARDS:
            yield Path(path).stem, *board_html(board_at(path), asker)


def main() -> int:
    """Make all pictures, and say how large each is; 1 if one is too large."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = list(pages())
    code = 0
    with tempfile.TemporaryDirectory() as name, chromium_in(Path(name)) as chromium:
        for board, text, height in found:
            page = chromium.new_page(viewport={"width": 24 * COLUMN, "height": height})
            page.set_content(text)
            path = FOLDER / f"{board}.png"
            page.screenshot(path=path)
            page.close()
            size_bytes = path.stat().st_size
            print(f"{board}.png: {size_bytes:,} bytes, {text.count(NO_DATA)} panels without data")
            code |= int(size_bytes > PICTURE_BYTES_MAX)
    return code


if __name__ == "__main__":
    sys.exit(main())
