"""Every board: drawn from its tables, over declared metrics only, by the conventions of Grafana."""

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from scripts.generate import DOCUMENTS, ROOT
from wakelog.telemetry.metric_spec import Kind
from wakelog.telemetry.metrics import METRICS, METRICS_BY_SUBJECT, NAME_SETS, specs_of

BOARDS = sorted(path for path in DOCUMENTS if re.fullmatch(r"dashboards/\w+\.json", path))
EVERY = {name: spec for spec in specs_of(NAME_SETS) for name in spec.series_names}
NAMES = {name for spec in METRICS for name in spec.series_names}

# What Grafana puts in before it asks; `instance` is Prometheus' own label.
VARIABLES = ("instance", "broker", "cluster", "topic", "group")
MACROS = {"$__rate_interval": "1m", **{f"${name}": ".*" for name in VARIABLES}}
OF_PROMETHEUS = {"instance", "job"}
OF_INFO = {
    "rocketmq_build_info": {"version", "compat"},
    "rocketmq_broker_info": {"name", "cluster", "address", "role"},
}
"""Labels of facts, which no path binds."""

UNITS = {"Bps", "bytes", "cps", "ms", "percentunit", "reqps", "s", "short"}
KINDS = {"bargauge", "gauge", "stat", "table", "timeseries"}


def board_at(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(ROOT, path).read_text())
    return found


def panels_of(path: str) -> list[dict[str, Any]]:
    """Return the panels that show something: not the headings."""
    return [panel for panel in board_at(path)["panels"] if panel["type"] != "row"]


def expressions_of(path: str) -> list[str]:
    return [target["expr"] for panel in panels_of(path) for target in panel["targets"]]


def expanded(expression: str) -> str:
    """Return an expression as Prometheus gets it."""
    for macro, text in MACROS.items():
        expression = expression.replace(macro, text)
    return expression


def selectors_of(expression: str) -> list[promql_parser.VectorSelector]:
    """Return every selector of an expression. Raises: ValueError if it does not parse."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(expanded(expression)), visit)
    return found


EXPRESSIONS = [expression for path in BOARDS for expression in expressions_of(path)]


def test_every_board_is_drawn() -> None:
    assert sorted(f"dashboards/{path.name}" for path in ROOT.glob("dashboards/*.json")) == BOARDS


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_is_drawn_from_its_tables(path: str) -> None:
    assert Path(ROOT, path).read_text() == DOCUMENTS[path](), "run ./dev docs"


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_parses_and_uses_declared_metrics(expression: str) -> None:
    selectors = selectors_of(expression)
    assert selectors
    for selector in selectors:
        assert "instance" in labels_of(selector), "the board's variables have to choose"


def labels_of(selector: promql_parser.VectorSelector) -> set[str]:
    """Return the labels that a selector chooses by, all of which a declared metric has."""
    assert selector.name is not None and selector.name in EVERY
    labels = {matcher.name for matcher in selector.matchers.matchers}
    known = set(EVERY[selector.name].labels) | OF_INFO.get(selector.name, set())
    assert labels <= known | OF_PROMETHEUS
    return labels


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_counters_are_rated(expression: str) -> None:
    """A counter without a rate says how long a broker has lived, unless it is shown as steps."""
    steps = ("segments", "attaches")
    for name in (str(selector.name) for selector in selectors_of(expression)):
        if EVERY[name].kind is Kind.COUNTER and not any(step in name for step in steps):
            assert f"rate({name}{{" in expression
    assert set(re.findall(r"\[(.*?)\]", expression)) <= {"$__rate_interval"}


SHOWN = {selector.name for expression in EXPRESSIONS for selector in selectors_of(expression)}
GOES_WRONG = re.compile(r"refus|fail|timed_out|trouble|undeliver|unanswer|discarded|_leads|epoch")


@pytest.mark.parametrize("subject", METRICS_BY_SUBJECT)
def test_every_subject_is_on_a_board(subject: str) -> None:
    names = {name for spec in METRICS_BY_SUBJECT[subject] for name in spec.series_names}
    assert names & SHOWN


def test_what_goes_wrong_is_on_a_board() -> None:
    assert not {name for name in NAMES if GOES_WRONG.search(name)} - SHOWN


@pytest.mark.parametrize("path", BOARDS)
def test_a_board_keeps_the_conventions(path: str) -> None:
    board = board_at(path)
    assert board["uid"] == f"wakelog-{Path(path).stem}"
    assert board["editable"] is False
    assert board["schemaVersion"] >= 39
    assert "rocketmq" in board["tags"]
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert variables.pop("datasource")["type"] == "datasource"
    assert all(one["multi"] and one["includeAll"] for one in variables.values())
    for variable in variables.values():
        assert variable["datasource"]["uid"] == "${datasource}"
        assert "label_values(" in variable["query"]["query"]


@pytest.mark.parametrize("path", BOARDS)
def test_a_panel_keeps_the_conventions(path: str) -> None:
    for panel in panels_of(path):
        assert panel["type"] in KINDS
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["description"].endswith(".")
        assert panel["datasource"]["uid"] == "${datasource}"
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references)) > 0
        for target in panel["targets"]:
            used = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert all(re.search(rf"by \([^)]*\b{label}\b", target["expr"]) for label in used)


@pytest.mark.parametrize("path", BOARDS)
def test_panels_have_places_of_their_own(path: str) -> None:
    board = board_at(path)
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in board["panels"]):
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells


def provisioned(name: str) -> Any:
    """Return a file by which Grafana is set up."""
    return yaml.safe_load((ROOT / "dashboards" / "provisioning" / name / "wakelog.yml").read_text())


def test_grafana_finds_the_boards_and_prometheus() -> None:
    [provider] = provisioned("dashboards")["providers"]
    assert provider["type"] == "file" and provider["options"]["path"].startswith("/")
    [source] = provisioned("datasources")["datasources"]
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text())
    assert source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == scraped["global"]["scrape_interval"]
    assert [(ROOT / "deploy" / path).is_file() for path in scraped["rule_files"]] == [True]
