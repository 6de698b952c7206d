"""Grafana boards from rows: what a reader of a board sees is said in a table, the rest is here.

A board is sections of panels. A panel is a number (`stat`), lines over time (`timeseries`), or what
is so now, as a table, a gauge or bars. Everything that Grafana wants to know and that does not
differ between ours is in `_panel_model`.

Conventions: a variable picks the data source, every rate is over `$__rate_interval`, and every
panel gives its unit and a sentence. Boards are not edited in Grafana.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

SCHEMA_VERSION = 39  # of Grafana 10.3; later ones convert it themselves
COLUMNS = 24
STAT_WIDTH, STAT_HEIGHT = 3, 4
GRAPH_WIDTH, GRAPH_HEIGHT = 12, 8

OF_INSTANCE = 'instance=~"$instance"'
OF_BROKER = f'{OF_INSTANCE},broker=~"$broker"'

MESSAGES_PER_SECOND = "cps"
REQUESTS_PER_SECOND = "reqps"
BYTES_PER_SECOND = "Bps"
BYTES = "bytes"
SECONDS = "s"
MILLISECONDS = "ms"
RATIO = "percentunit"
COUNT = "short"


class Target(NamedTuple):
    """One query and what its lines are called; `{{label}}` stands for a label's value."""

    expression: str
    legend: str


class Panel(NamedTuple):
    """One panel. kind: Grafana's name of it, a key of `OPTIONS`."""

    kind: str
    title: str
    description: str
    unit: str
    targets: tuple[Target, ...]


def rate(name: str, labels: str = OF_BROKER) -> str:
    """Return the growth of a counter in a second."""
    return f"rate({name}{{{labels}}}[$__rate_interval])"


def summed(name: str, what: str = "") -> tuple[str, str]:
    """Return the growth of a counter in a second, by broker, and its legend."""
    return f"sum by (broker) ({rate(name)})", f"{{{{broker}}}} {what}".strip()


def quantiles(name: str, *shares: float) -> tuple[tuple[str, str], ...]:
    """Return what these shares of a histogram's durations stayed below, by broker, and legends."""
    return tuple((quantile(share, name), f"{{{{broker}}}} {share * 100:g} %") for share in shares)


def quantile(share: float, name: str, label: str = "broker") -> str:
    """Return what that share of a histogram's durations stayed below, by a label."""
    buckets = rate(f"{name}_bucket")
    return f"histogram_quantile({share}, sum by (le, {label}) ({buckets}))"


def stat(title: str, description: str, unit: str, expression: str, legend: str = "") -> Panel:
    """Return a number."""
    return Panel("stat", title, description, unit, (Target(expression, legend or title),))


def graph(title: str, description: str, unit: str, *targets: tuple[str, str]) -> Panel:
    """Return lines over time, each group of them a query and its legend."""
    return Panel("timeseries", title, description, unit, tuple(Target(*one) for one in targets))


def table(title: str, description: str, unit: str, *targets: tuple[str, str]) -> Panel:
    """Return rows of what is so now: the labels of each query, and its value under its legend."""
    return Panel("table", title, description, unit, tuple(Target(*one) for one in targets))


def gauge(title: str, description: str, unit: str, *targets: tuple[str, str]) -> Panel:
    """Return a gauge for each series."""
    return Panel("gauge", title, description, unit, tuple(Target(*one) for one in targets))


def bars(title: str, description: str, unit: str, *targets: tuple[str, str]) -> Panel:
    """Return a bar for each series."""
    return Panel("bargauge", title, description, unit, tuple(Target(*one) for one in targets))


DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Variable(NamedTuple):
    """A choice at the top of a board. query: of the values of a label."""

    name: str
    label: str
    query: str


INSTANCE = Variable("instance", "Deployment", "label_values(rocketmq_build_info, instance)")
BROKER = Variable(
    "broker",
    "Broker",
    f"label_values(rocketmq_store_put_messages_total{{{OF_INSTANCE}}}, broker)",
)

Sections = Mapping[str, tuple[Panel, ...]]


class Board(NamedTuple):
    """One board. name: of its file and its module."""

    name: str
    title: str
    sections: Sections
    variables: tuple[Variable, ...] = (INSTANCE, BROKER)


def board_json(board: Board) -> str:
    """Return a board as Grafana imports it."""
    source = f"scripts/boards/{board.name}.py"
    model = {
        "uid": f"wakelog-{board.name}",
        "title": board.title,
        "description": f"Drawn by ./dev docs from {source}; change that instead.",
        "tags": [TAG, "rocketmq"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "browser",
        "templating": {"list": list(_variable_models(board.variables))},
        "annotations": {"list": []},
        "links": [LINK],
        "panels": list(_panel_models(board.sections)),
    }
    return json.dumps(model, indent=2) + "\n"


TAG = "wakelog"

LINK = {
    "title": "Boards",
    "type": "dashboards",
    "tags": [TAG],
    "asDropdown": True,
    "includeVars": True,
    "keepTime": True,
}
"""To the other boards, with what is chosen here."""


def _variable_models(variables: Sequence[Variable]) -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    for name, label, query in variables:
        yield {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": DATA_SOURCE,
            "query": {"query": query, "refId": f"variable-{name}"},
            "refresh": 2,  # also when the time range changes
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def _panel_models(sections: Sections) -> Iterator[dict[str, Any]]:
    """Lay the panels out from left to right under a heading a section."""
    panel_id = top = 0
    for title, panels in sections.items():
        panel_id += 1
        heading = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        yield {"id": panel_id, "type": "row", "title": title, "gridPos": heading, "panels": []}
        top += 1
        left = height = 0
        for panel in panels:
            is_stat = panel.kind == "stat"
            width = STAT_WIDTH if is_stat else GRAPH_WIDTH
            if left + width > COLUMNS:
                left, top = 0, top + height
            height = STAT_HEIGHT if is_stat else GRAPH_HEIGHT
            panel_id += 1
            place = {"h": height, "w": width, "x": left, "y": top}
            yield _panel_model(panel, panel_id, place)
            left += width
        top += height


def _panel_model(panel: Panel, panel_id: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": panel_id,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATA_SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": OPTIONS[panel.kind],
        "transformations": TRANSFORMATIONS.get(panel.kind, []),
        "targets": _target_models(panel),
    }


def _target_models(panel: Panel) -> list[dict[str, Any]]:
    is_now = panel.kind in NOW
    return [
        {
            "refId": chr(ord("A") + index),
            "datasource": DATA_SOURCE,
            "expr": target.expression,
            "legendFormat": target.legend,
            "instant": is_now,
            "range": not is_now,
            "format": "table" if panel.kind == "table" else "time_series",
        }
        for index, target in enumerate(panel.targets)
    ]


NOW = ("table", "gauge", "bargauge")
"""Panels that show what is so now."""

_LAST = {"calcs": ["lastNotNull"], "fields": "", "values": False}

OPTIONS: dict[str, dict[str, Any]] = {
    "stat": {
        "colorMode": "value",
        "graphMode": "area",
        "reduceOptions": _LAST,
        "textMode": "auto",
    },
    "gauge": {"reduceOptions": _LAST, "showThresholdMarkers": True},
    "bargauge": {"reduceOptions": _LAST, "orientation": "horizontal", "displayMode": "basic"},
    "table": {"showHeader": True, "cellHeight": "sm"},
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
}

TRANSFORMATIONS: dict[str, list[dict[str, Any]]] = {
    "table": [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": {"Time": True}}},
    ],
}
"""One row for the same labels, with a column for each query."""
