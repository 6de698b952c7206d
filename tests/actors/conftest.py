"""One Ray for the session, which the tests marked `ray` share."""

from collections.abc import Iterator

import pytest

from wakelog.actors.cluster.ray_cluster import RayCluster, leave


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """Yield a Ray of its own that this process is connected to."""
    cluster = RayCluster(worker_count=9, worker_port_count=100)
    cluster.wait_ready()
    cluster.connect()
    yield cluster
    leave()
    cluster.stop()
