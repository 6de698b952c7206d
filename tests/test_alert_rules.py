"""The rules for Prometheus: over declared metrics, with a page each, and tried by promtool."""

import subprocess

import pytest

from scripts.alert_rules import ALERTS, LAG, NORMAL, RECORDED, Alert, Recorded, page_path
from scripts.generate import ROOT
from tests.compat.provision import prometheus_binaries
from tests.test_dashboards import labels_of, selectors_of

RULES = ROOT / "dashboards" / "rules"
NOT_OURS = {"up", *(rule.name for rule in RECORDED)}
"""What Prometheus makes itself, and what the rules do."""


def metrics_of(expression: str) -> set[str]:
    """Return the declared metrics of an expression; any other has to be a recorded one."""
    found = set()
    for selector in selectors_of(expression):
        if selector.name not in NOT_OURS:
            labels_of(selector)
            found.add(str(selector.name))
    return found


@pytest.mark.parametrize("rule", RECORDED, ids=lambda rule: rule.name)
def test_a_recorded_rule_is_made_of_declared_metrics(rule: Recorded) -> None:
    assert metrics_of(rule.expression)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_asks_for_what_a_normal_hour_has(alert: Alert) -> None:
    """Else it would be silent for want of data."""
    there = {one.partition("{")[0] for one in NORMAL}
    asked = metrics_of(alert.expression)
    assert asked <= there
    assert asked or LAG in alert.expression or "up{" in alert.expression
    assert {one.partition("{")[0] for one in alert.fault} <= there


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_has_a_page_that_names_it(alert: Alert) -> None:
    assert f"`{alert.name}`" in (ROOT / page_path(alert.page)).read_text(encoding="utf-8")


def promtool(*words: str) -> str:
    """Run promtool; return what it complains of."""
    command = [prometheus_binaries().promtool, *words]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if outcome.returncode == 0 else outcome.stdout + outcome.stderr


@pytest.mark.prometheus
def test_promtool_accepts_the_rules() -> None:
    assert promtool("check", "rules", str(RULES / "wakelog.yml")) == ""


@pytest.mark.prometheus
@pytest.mark.parametrize("name", ["faults", "normal"])
def test_alerts_fire_at_their_fault_and_in_no_normal_hour(name: str) -> None:
    assert promtool("test", "rules", str(RULES / "tests" / f"{name}.yml")) == ""
