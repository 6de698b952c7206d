"""What a deployment says of itself after known traffic: the ground of the metrics."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.actors.deployments import running, small_plan, wait_until
from tests.telemetry.traffic import make_traffic, settled

RETENTION_SOON = "cleanResourceInterval=200"
"""Retention is asked again before long, should its first look have come before any file."""

POOL = ("transientStorePoolEnable=true", "transientStorePoolSize=2")
"""There is a Commit, and its metrics, only with the transient pool."""

NAMES = "wakelog.metricsNames=native,exporter,v5"
"""What families under the names of elsewhere need is there only if they are served."""

SLAVES = "replicationEnable=true"
"""Metrics of slaves are there only if the Broker accepts some."""


@pytest.fixture(scope="session")
def statistics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a broker in one process said after some traffic."""
    store: Path = tmp_path_factory.mktemp("metrics")

    async def main() -> dict[str, Any]:
        async with running(small_plan(store, RETENTION_SOON, *POOL, NAMES, SLAVES)) as (
            deployment,
            client,
        ):
            await make_traffic(client)
            found = await wait_until(lambda: settled(deployment), "services that caught up")
            return dict(found)

    return asyncio.run(main())
