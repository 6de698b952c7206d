"""A program: Spark beside Ray, in one session on `local-cluster`, with Ray's token on.

The session hosts the Ray in which the example's broker runs. With `outside` as the last argument
Spark reads before what a broker's actors in a Ray of their own hand over. Printed is what each has
read.
"""

import asyncio
import sys
from pathlib import Path

from examples import broker_in_spark
from tests.actors.deployments import small_plan
from tests.compat.clusters import Cluster
from tests.spark.remote.conftest import numbered, send
from wakelog.actors.deploy.group import BROKER
from wakelog.actors.deploy.supervised import SupervisedActors, placed
from wakelog.actors.ray.options import actor_name, find_actor
from wakelog.actors.ray.private_ray import RayCluster, leave
from wakelog.spark.handoff import held_snapshot, read_snapshot
from wakelog.spark.session import open_session

MASTER = "local-cluster[2,1,1024]"
ORDERS = 300


def read_from_outside(store: Path) -> None:
    """Start a broker in a Ray of its own; send to it, and read from it by Spark."""
    plan = small_plan(store, is_local=False, segment_bytes=1 << 15)
    cluster = RayCluster(worker_count=10)  # it starts while Spark does
    try:
        spark = open_session(MASTER)
        cluster.wait_ready()
        cluster.connect()
        actors = SupervisedActors(placed(plan, cluster.shared_directory))
        asyncio.run(actors.wait_ready(lambda what: None))
        broker = find_actor(actor_name(plan.brokers[0].name, BROKER))
        cluster_of = Cluster(plan.name_server_address, "", store)
        send(cluster_of, numbered("orders", range(ORDERS)))
        with held_snapshot(broker) as snapshot:
            assert len(snapshot["segments"]) > 1
            table = read_snapshot(spark, snapshot, topic="orders", minPartitions="2")
            [counts] = table.selectExpr("count(*)", "count(distinct body)").collect()
            print("outside:", *counts)
        assert asyncio.run(actors.stop()), "the store was not left in order"
    finally:
        leave()
        cluster.stop()


def main(directory: str, name_server_port: int, broker_port: int, *, is_outside: bool) -> None:
    """Run the example, and what is asked for before."""
    if is_outside:
        read_from_outside(Path(directory, "outside"))
    store = Path(directory, "inside")
    broker_in_spark.main(str(store), name_server_port, broker_port)
    print("inside:", "in order" if not (store / "abort").exists() else "not in order")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]), is_outside=sys.argv[4:] == ["outside"])
