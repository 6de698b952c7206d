"""One Ray for the session, and one broker for each transport, which tests marked `ray` share."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.actors.load import check_queues_equal_a_rebuild
from tests.actors.supervised_brokers import (
    KINDS,
    REPEATED_KILL_KINDS,
    SupervisedBroker,
    start_supervised,
)
from wakelog.actors.ray.private_ray import RayCluster, leave


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of a role that their kind of deployment does not have."""
    left_out = [item for item in items if _has_no_role(item)]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def _has_no_role(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    parameters = callspec.params if callspec is not None else {}
    kind, role = KINDS.get(parameters.get("supervised", "")), parameters.get("role")
    return kind is not None and role is not None and role not in kind.roles


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """Yield a Ray of its own that this process is connected to."""
    cluster = RayCluster(worker_count=10)
    cluster.wait_ready()
    cluster.connect()
    yield cluster
    leave()
    cluster.stop()


@pytest.fixture(scope="session", params=KINDS)
def supervised(
    request: pytest.FixtureRequest,
    ray_cluster: RayCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SupervisedBroker]:
    """Yield a running broker made of actors."""
    store = tmp_path_factory.mktemp("store-" + request.param.replace(" ", "-"))
    broker = start_supervised((KINDS | REPEATED_KILL_KINDS)[request.param], ray_cluster, store)
    yield broker
    assert asyncio.run(broker.actors.stop()), "a store was not left in order"
    config = broker.plan.brokers[0].settings.store
    unfinished = [path.name for path in store.glob("wakelog.new.*")]
    assert not unfinished, "a process left what it had not finished"
    assert check_queues_equal_a_rebuild(config, tmp_path_factory.mktemp("rebuilt"))
