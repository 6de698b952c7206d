"""Fixtures of the tests that run the real RocketMQ: clusters, and the Java client."""

from collections.abc import Iterator

import pytest

from tests.compat.clusters import STARTERS, Cluster
from tests.compat.driver import JavaDriver

# Level 3 is the first of a retry, and has 10 s by default.
SHARED_SETTINGS = {"messageDelayLevel": "1s 2s 1s 1s 1s"}


@pytest.fixture(scope="session", params=list(STARTERS))
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Yield a running cluster of each kind; tests share it and keep to topics of their own."""
    folder = tmp_path_factory.mktemp(f"cluster-{request.param}")
    with STARTERS[request.param](folder, settings=SHARED_SETTINGS) as started:
        yield started


@pytest.fixture(scope="session")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDriver]:
    """Yield the Java client, pointed at the cluster's name server."""
    with JavaDriver(tmp_path_factory.mktemp("driver"), cluster.name_server) as started:
        yield started


@pytest.fixture
def topic(request: pytest.FixtureRequest, cluster: Cluster, driver: JavaDriver) -> str:
    """Create a topic of four queues, named after the test."""
    name = request.node.originalname.removeprefix("test_")[:100]
    driver("createTopic", address=cluster.broker, topic=name, queues=4)
    return str(name)
