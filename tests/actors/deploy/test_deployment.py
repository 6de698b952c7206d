"""Which deployment a plan asks for."""

import asyncio
from typing import Any

import pytest

from wakelog.actors.deploy import supervised
from wakelog.actors.deploy.deployment import make_deployment
from wakelog.actors.deploy.local import LocalDeployment
from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.deploy.supervised import RayDeployment


def test_a_local_plan_needs_no_ray() -> None:
    deployment = make_deployment(make_plan(UpOptions(store="/s", is_local=True)))
    assert type(deployment) is LocalDeployment
    assert asyncio.run(deployment.stop(lambda _: None))


def test_another_plan_begins_to_start_a_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    rays: list[dict[str, Any]] = []
    monkeypatch.setattr(supervised, "RayCluster", lambda **options: rays.append(options))
    assert type(make_deployment(make_plan(UpOptions(store="/s")))) is RayDeployment
    assert len(rays) == 1
