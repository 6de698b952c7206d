"""Which deployment a plan asks for."""

import asyncio

import pytest

from wakelog.actors.deploy.deployment import make_deployment
from wakelog.actors.deploy.local import LocalDeployment
from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.deploy.supervised import RayDeployment


@pytest.mark.parametrize(("is_local", "kind"), [(True, LocalDeployment), (False, RayDeployment)])
def test_a_plan_decides_which_deployment_is_made(is_local: bool, kind: type) -> None:
    deployment = make_deployment(make_plan(UpOptions(store="/s", is_local=is_local)))
    assert type(deployment) is kind
    assert asyncio.run(deployment.stop(lambda _: None))
