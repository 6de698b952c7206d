"""No task is lost while workers are killed; some are done twice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.celery.workers import kill_run
from tests.tasks.brokers import broker
from wakelog.testing import EmbeddedBroker

__all__ = ["broker"]
pytestmark = [pytest.mark.kill, pytest.mark.slow]


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_no_task_is_lost_while_workers_are_killed(
    broker: EmbeddedBroker, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    outcome = kill_run(
        broker.name_server,
        tmp_path,
        tasks=10_000,
        kills_max=1_000,
        kill_every_seconds=5,
        per_second=150,
    )
    record_property("said", f"Celery while workers are killed: {outcome}")
    assert outcome.lost == 0
    assert outcome.kills > 5
