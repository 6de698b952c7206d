"""A program: a broker of actors with the toy service, in a Ray of its own.

python -m tests.actors.services.toy_broker DIRECTORY    print what the service and its client say
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.actors.deployments import small_plan, wait_until
from tests.actors.services.toy_service import ROW
from wakelog.actors.deploy.supervised import SupervisedActors, placed
from wakelog.actors.ray.private_ray import RayCluster, leave

NAME = "broker-with-toy"


async def total_of(actors: SupervisedActors) -> tuple[Any, Any]:
    """Return the sum that the client has, and the one that the service has, when it is complete."""

    async def is_complete() -> bool:
        broker = (await actors.statistics()).get("brokers", {}).get(NAME, {})
        found[:] = [
            broker.get("service_clients", {}).get("counters", {}).get("toy"),
            broker.get("added_services", {}).get("toy"),
        ]
        return found == [{"total": 40}] * 2

    found: list[Any] = []
    await wait_until(is_complete, "the sum")
    return found[0], found[1]


async def run(directory: Path, cluster: RayCluster) -> None:
    """Start the broker, wait for the sum, stop in order."""
    plan = small_plan(directory, f"brokerName={NAME}", is_local=False)
    found = placed(plan, cluster.shared_directory)
    [broker] = found.brokers
    broker = msgspec.structs.replace(broker, added_services={"toy": ROW})
    actors = SupervisedActors(msgspec.structs.replace(found, name_server=None, brokers=(broker,)))
    await actors.wait_ready(lambda _: None)
    try:
        print(*await total_of(actors), flush=True)
    finally:
        print("stopped" if await actors.stop() else "not in order", flush=True)


def main() -> None:
    """Run with a Ray that nothing else uses: a cluster has one deployment."""
    cluster = RayCluster(worker_count=10)
    try:
        cluster.wait_ready()
        cluster.connect()
        asyncio.run(run(Path(sys.argv[1]), cluster))
    finally:
        leave()
        cluster.stop()


if __name__ == "__main__":
    main()
