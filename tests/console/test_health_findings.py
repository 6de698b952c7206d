"""Stores and services, beside the one case of each rule in `cases`."""

from tests.console.cases import cluster, history_of, serving, stored
from wakelog.console.health_findings import service_findings, store_findings


def test_a_remedy_names_the_folder_of_the_store() -> None:
    [found] = store_findings(history_of((stored(changed_blocks=1),)))
    assert "wakelog log verify --store /srv/store at its host" in found.remedy


def test_a_broker_that_reports_nothing_has_nothing_wrong() -> None:
    history = history_of((cluster(),))
    assert not list(store_findings(history)) and not list(service_findings(history))


def test_services_that_a_broker_waits_for_after_its_start_are_not_away() -> None:
    assert not list(service_findings(history_of((serving(0, 0, is_attached=False),))))
    [found] = service_findings(history_of((serving(2, 0, is_attached=False),)))
    assert found.rule == "service away"
