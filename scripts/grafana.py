"""Grafana boards from rows: what a reader of a board sees is said in a table, the rest is here.

A board is sections of panels; a panel is a number (`stat`) or lines over time (`timeseries`).
Everything that Grafana wants to know and that does not differ between ours is in `_panel_model`.

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
RATIO = "percentunit"
COUNT = "short"


class Target(NamedTuple):
    """One query and what its lines are called; `{{label}}` stands for a label's value."""

    expression: str
    legend: str


class Panel(NamedTuple):
    """One panel: a number (`stat`) or lines over time (`timeseries`)."""

    kind: str
    title: str
    description: str
    unit: str
    targets: tuple[Target, ...]


def rate(name: str, labels: str = OF_BROKER) -> str:
    """Return the growth of a counter in a second."""
    return f"rate({name}{{{labels}}}[$__rate_interval])"


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


DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


Sections = Mapping[str, tuple[Panel, ...]]


def board_json(*, uid: str, title: str, source: str, sections: Sections) -> str:
    """Return a board as Grafana imports it.

    source: the file that has its tables.
    """
    board = {
        "uid": uid,
        "title": title,
        "description": f"Drawn by ./dev docs from {source}; change that instead.",
        "tags": ["rocketmq", "wakelog"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "browser",
        "templating": {"list": list(_variables())},
        "annotations": {"list": []},
        "links": [],
        "panels": list(_panel_models(sections)),
    }
    return json.dumps(board, indent=2) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    yield _label_variable("instance", "Deployment", "label_values(rocketmq_build_info, instance)")
    broker = f"label_values(rocketmq_store_put_messages_total{{{OF_INSTANCE}}}, broker)"
    yield _label_variable("broker", "Broker", broker)


def _label_variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
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
        "targets": _target_models(panel.targets),
    }


def _target_models(targets: Sequence[Target]) -> list[dict[str, Any]]:
    return [
        {
            "refId": chr(ord("A") + index),
            "datasource": DATA_SOURCE,
            "expr": target.expression,
            "legendFormat": target.legend,
        }
        for index, target in enumerate(targets)
    ]


OPTIONS: dict[str, dict[str, Any]] = {
    "stat": {
        "colorMode": "value",
        "graphMode": "area",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    },
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
}
