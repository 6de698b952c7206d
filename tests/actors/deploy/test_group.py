"""A deployment plan survives the way to the Supervisor, and names every actor once."""

import json
from pathlib import Path

from tests.actors.plans import service_plan
from wakelog.actors.deploy.group import (
    DeploymentPlan,
    GroupPlan,
    actor_name,
    actors_count,
    read_deployment_plan,
)
from wakelog.actors.ray.options import TARGETS, Placement
from wakelog.actors.services.table import SERVICES
from wakelog.nameserver.config import NameServerConfig
from wakelog.storage.config import StoreConfig


def test_a_plan_travels_as_plain_parts(tmp_path: Path) -> None:
    plan = DeploymentPlan(
        "127.0.0.1",
        str(tmp_path),
        NameServerConfig(kv_config_path=str(tmp_path / "kv.json")),
        (GroupPlan(service_plan(tmp_path), Placement(resource="disk")),),
        metrics_port=5557,
    )
    read = read_deployment_plan(json.loads(json.dumps(plan.to_builtins())))
    assert read == plan


def test_each_actor_of_each_broker_has_a_name_of_its_own() -> None:
    names = {
        actor_name(broker, row.actor_name)
        for broker in ("broker-a", "broker-b")
        for row in SERVICES.values()
    }
    assert len(names) == 2 * len(SERVICES)
    with_pool = StoreConfig(store_path_root="/s", transient_store_pool_enable=True)
    plain = StoreConfig(store_path_root="/s")
    assert actors_count([with_pool], 1) == len(TARGETS)  # one target for every added service
    assert actors_count([with_pool] * 2) - actors_count([with_pool]) == 1 + len(SERVICES)
    assert actors_count([with_pool]) - actors_count([plain]) == 1
    assert actors_count([plain] * 2, 3) - actors_count([plain] * 2) == 6
