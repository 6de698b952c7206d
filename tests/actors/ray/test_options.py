"""Every actor has the same options, and `ray.remote` is used in one place."""

import re
from pathlib import Path

import pytest

from wakelog.actors.ray.options import TARGETS, Placement, options_at
from wakelog.actors.services.table import SERVICES, load

ROOT = Path(__file__).resolve().parents[3]


def test_an_actor_is_never_repeated_and_always_restarted() -> None:
    options = options_at()
    assert options["num_cpus"] == 0 and options["max_restarts"] == -1
    assert options["max_task_retries"] == 0 and options["lifetime"] == "detached"


@pytest.mark.parametrize("kind", TARGETS)
def test_every_target_is_a_class(kind: str) -> None:
    assert isinstance(load(TARGETS[kind]), type)


def test_every_service_is_an_actor() -> None:
    assert {row.actor_name for row in SERVICES.values()} <= set(TARGETS)


def test_a_broker_is_placed_with_its_store() -> None:
    options = options_at(Placement(resource="disk-1"))
    assert options["resources"] == {"disk-1": 0.001}
    strategy = options_at(Placement(node_id="ab" * 28))["scheduling_strategy"]
    assert strategy.node_id == "ab" * 28 and not strategy.soft


def test_ray_remote_is_used_in_one_file() -> None:
    pattern = re.compile(r"\bray\.remote\b")
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "wakelog").rglob("*.py")
        if pattern.search(path.read_text().replace("`ray.remote`", ""))
    }
    assert found == {"wakelog/actors/ray/options.py"}
