"""Each alert fires at its fault in a real broker, and none in an hour of normal load."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from scripts.alert_rules import ALERTS
from tests.alert_faults import FAULTS, FAULTS_OF_ACTORS, Course, works_for
from tests.alert_series import ASKED, Scrapes, complaints, watch

pytestmark = [pytest.mark.prometheus, pytest.mark.slow]

NOT_IN_ONE_PROCESS = {
    "rocketmq_actor_answers",
    "rocketmq_actor_restarts_total",
    "rocketmq_actor_trouble",
    "rocketmq_in_sync_replicas",
    "rocketmq_leads",
    "rocketmq_member_behind_bytes",
    "rocketmq_members",
}
"""What only actors have, groups with a register, and services that do not work."""


def test_every_alert_has_a_fault() -> None:
    assert FAULTS.keys() | FAULTS_OF_ACTORS.keys() == {alert.name for alert in ALERTS}
    assert not FAULTS.keys() & FAULTS_OF_ACTORS.keys()


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Course], Scrapes]:
    """Return what makes a fault happen, once for all alerts of it."""

    @cache
    def make(fault: Course) -> Scrapes:
        scrapes = watch(tmp_path_factory.mktemp("fault"), fault, Scrapes())
        scrapes.hold()
        return scrapes

    return make


@pytest.mark.parametrize("alert", FAULTS)
def test_an_alert_fires_at_its_fault(
    alert: str, scraped: Callable[[Course], Scrapes], tmp_path: Path
) -> None:
    assert complaints(scraped(FAULTS[alert]), tmp_path, firing=alert) == ""


@pytest.mark.parametrize(
    ("minutes", "interval_seconds"), [(20, 60), pytest.param(60, 15, marks=pytest.mark.long)]
)
def test_no_alert_fires_under_load(minutes: int, interval_seconds: int, tmp_path: Path) -> None:
    """What the alerts ask for is there: else they would be silent for want of data.

    No alert waits for longer than ten minutes.
    """
    folder = tmp_path / "stores"
    folder.mkdir()
    scrapes = watch(folder, works_for(minutes), Scrapes(interval_seconds))
    assert complaints(scrapes, tmp_path, firing=None) == ""
    assert scrapes.names() == ASKED - NOT_IN_ONE_PROCESS
