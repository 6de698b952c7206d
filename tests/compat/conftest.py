"""Fixtures of the tests that run the real RocketMQ: clusters, and the Java client."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.compat.clusters import STARTERS, Cluster
from tests.compat.driver import JavaDriver
from tests.kinds import TURNS

# Level 3 is the first of a retry, and has 10 s by default.
SHARED_SETTINGS = {
    "messageDelayLevel": "1s 2s 1s 1s 1s",
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
}


class EarlyFilter(NamedTuple):
    """What a consumer filters by that is there from the start of a cluster."""

    topic: str
    group: str
    expression: str


EARLY_FILTER = EarlyFilter("early", "group_early", "a > 1")


@pytest.fixture(
    scope="session",
    params=[
        name if name in TURNS["cluster"] else pytest.param(name, marks=pytest.mark.long)
        for name in STARTERS
    ],
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Yield a running cluster of each kind; tests share it and keep to topics of their own."""
    folder = tmp_path_factory.mktemp(f"cluster-{request.param}")
    with STARTERS[request.param](folder, settings=SHARED_SETTINGS) as started:
        yield started


@pytest.fixture(scope="session")
def driver(cluster: Cluster) -> Iterator[JavaDriver]:
    """Yield the Java client, pointed at the cluster's name server."""
    topic, group, expression = EARLY_FILTER
    with JavaDriver(cluster.name_server) as started:
        started("createTopic", address=cluster.broker, topic=topic, queues=4)
        started("consume", name=topic, group=group, topics=[topic], sql=expression)
        yield started


@pytest.fixture
def early_filter(driver: JavaDriver) -> EarlyFilter:
    """Return a filter that the broker has written, as it does every 10 s, or soon will have."""
    return EARLY_FILTER


@pytest.fixture
def topic(request: pytest.FixtureRequest, cluster: Cluster, driver: JavaDriver) -> str:
    """Create a topic of four queues, named after the test."""
    name = request.node.originalname.removeprefix("test_")[:100]
    driver("createTopic", address=cluster.broker, topic=name, queues=4)
    return str(name)
